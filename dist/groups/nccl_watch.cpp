#include "dist/groups/nccl_watch.h"

namespace bellows {

static constexpr Timeout kPoll(2), kDrain(500);
// Interval of asking the store whether another rank has failed. Shorter than the time for which a
// rank waits for the others' reports.
static constexpr Timeout kAsk(300);

NcclWatch::NcclWatch(const GroupContext& group, const std::string& prefix,
                     Communicator& communicator)
    : timeout_s_(group.options.timeout_s),
      communicator_(communicator),
      recorder_(group.options.flight_recorder) {
  if (group.store) postmortem_.emplace(group.store, group.ranks, prefix + "end/");
  thread_ = std::thread([this] { run_thread(); });
}

NcclWatch::~NcclWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void NcclWatch::check() const {
  const std::lock_guard searching(search_);  // the streams are free before the cause is known
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) fail(Exit::distributed, failure_);
}

bool NcclWatch::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kDrain, [this] { return flights_.empty() || !failure_.empty(); });
  return flights_.empty() && failure_.empty();
}

int64_t NcclWatch::start(const Collective& collective) {
  check();
  return recorder_.start(collective);
}

void NcclWatch::run(const Collective& collective, const std::function<void()>& queue) {
  try {
    queue();
  } catch (const Error& error) {
    if (error.exit != Exit::distributed) throw;
    diagnose(collective, false, error.what());
    check();
  }
}

void NcclWatch::watch(const Collective& collective, std::shared_ptr<Event> done) {
  if (!done) return recorder_.finish(collective.sequence);
  const std::lock_guard lock(mutex_);
  if (flights_.empty()) due_ = Clock::now() + timeout_of(timeout_s_);
  flights_.push_back({collective, std::move(done)});
  changed_.notify_all();
}

void NcclWatch::wait(int64_t sequence) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= sequence || !failure_.empty(); });
  if (done_ < sequence) fail(Exit::distributed, failure_);
}

void NcclWatch::abort(const std::string& cause) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
    failure_ = "nccl: " + cause;
    changed_.notify_all();
  }
  if (postmortem_) postmortem_->leave(cause);
  communicator_.abort();
}

void NcclWatch::diagnose(const Collective& c, bool timed_out, const std::string& symptom) {
  const std::lock_guard searching(search_);
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
  }
  const auto close = [this] { communicator_.abort(); };
  std::string why =
      timed_out ? cat("not done within ", timeout_s_, " s; raise dist.timeout_s") : symptom;
  if (postmortem_)
    why = postmortem_->why(c, recorder_.started(), timed_out, timeout_s_, symptom, close);
  else
    close();
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = cat("nccl: ", place_of(c), ": ", why);
  changed_.notify_all();
}

void NcclWatch::run_thread() {
  begin_thread("nccl watch");
  auto ask_at = Clock::now() + kAsk;
  bool others_failed = false;
  std::unique_lock lock(mutex_);
  while (!stopping_ && failure_.empty()) {
    if (flights_.empty()) {
      changed_.wait_for(lock, kAsk, [this] { return stopping_ || !flights_.empty(); });
    } else {
      changed_.wait_for(lock, kPoll, [this] { return stopping_ || !failure_.empty(); });
    }
    if (stopping_ || !failure_.empty()) break;
    const std::deque<Flight> flights = flights_;
    const bool late = !flights.empty() && Clock::now() >= due_;
    lock.unlock();
    size_t ended = 0;
    std::string symptom;
    try {
      while (ended < flights.size() && flights[ended].done->ready()) {
        recorder_.finish(flights[ended].collective.sequence);
        ++ended;
      }
      symptom = communicator_.error();
    } catch (const Error& error) {  // the device failed
      symptom = error.what();
    }
    if (ended < flights.size() && (!symptom.empty() || late || others_failed)) {
      const bool timed_out = late && symptom.empty() && ended == 0;
      if (!symptom.empty() || timed_out || others_failed)
        diagnose(flights[ended].collective, timed_out, symptom);
    }
    if (postmortem_ && Clock::now() >= ask_at) {
      ask_at = Clock::now() + kAsk;
      if (others_failed = postmortem_->failed(); others_failed)
        postmortem_->report(recorder_.started(), false);
    }
    lock.lock();
    if (!ended) continue;
    done_ = flights[ended - 1].collective.sequence;
    flights_.erase(flights_.begin(), flights_.begin() + std::ptrdiff_t(ended));
    due_ = Clock::now() + timeout_of(timeout_s_);
    changed_.notify_all();
  }
}

}  // namespace bellows
