#include "dist/groups/gloo_engine.h"
#include <future>

namespace bellows {

using Clock = std::chrono::steady_clock;

// Time for which a collective may continue after a connection broke, because a rank that has done
// its part of the last collective may leave.
static constexpr Timeout kGrace(300);
// Times after an operation's timeout: kLate until its connections are closed, kSearch until the
// search for the cause must have ended.
static constexpr Timeout kLate(100), kSearch(1400);

GlooEngine::GlooEngine(const GroupContext& group, bool share)
    : group_(group),
      timeout_(group.timeout()),
      prefix_(group.new_prefix("gloo")),
      postmortem_(group, prefix_ + "end/"),
      recorder_(group.options.flight_recorder),
      mesh_(std::async(std::launch::async,
                       [&] {  // Gloo's thread inherits name and cores
                         begin_thread("gloo");
                         return std::make_unique<GlooMesh>(group.ranks, *group.store,
                                                           prefix_ + "mesh/", timeout_);
                       })
                .get()),
      shared_(SharedMemory::join(group.ranks, *group.store, prefix_ + "memory/", timeout_, share)) {
}

int64_t GlooEngine::start(GlooOperation operation) {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) fail(Exit::distributed, failure_);
  const int64_t sequence = operation.collective.sequence = recorder_.start(operation.collective);
  if (queue_.empty()) due_ = Clock::now() + timeout_;
  SharedMemory::Message& message = operation.message;
  if (!shared_) message.bytes = 0;
  if (message.bytes) shared_->number(message);
  // Small messages are all there at once. Waking the thread for them would take longer.
  if (!caller_may_run(operation) || !shared_->put(message)) {
    wanted_ = sequence;
    has_work_.notify_one();
  }
  queue_.push_back(std::move(operation));
  changed_.notify_all();
  return sequence;
}

// False over TCP: Gloo's timeout limits each wait for a peer, not the whole operation, so wait()
// must watch the total time itself.
bool GlooEngine::caller_may_run(const GlooOperation& operation) const {
  return operation.message.bytes && !group_.options.check_collectives;
}

void GlooEngine::wait(int64_t sequence) {
  std::unique_lock lock(mutex_);
  bool closed = false;
  while (done_ < sequence && failure_.empty()) {
    const auto limit = due_ + (closed ? kSearch : kLate);
    if (!running_ && caller_may_run(queue_.front())) {
      run_first(lock);
    } else if (Clock::now() < limit) {
      changed_.wait_until(lock, limit);
    } else if (!closed) {
      closed = true;
      close();
    } else {
      failure_ = cat("gloo: ", place_of(queue_.front().collective), ": not done within ",
                     group_.options.timeout_s,
                     " s, and the store of rank 0 does not answer; is rank 0 stopped, "
                     "or its machine down?");
      wake();
    }
  }
  if (done_ < sequence) fail(Exit::distributed, failure_);
}

void GlooEngine::abort(const std::string& cause) {
  std::unique_lock lock(mutex_);
  if (!failure_.empty()) return;
  cause_ = cause;
  failure_ = "gloo: " + cause;
  wake();
  mesh_->stop_watching();
  changed_.wait_for(lock, kGrace, [this] { return watched_; });
}

bool GlooEngine::stop() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  wake();
  if (done_ < wanted_) close();
  mesh_->stop_watching();
  return changed_.wait_for(lock, kGrace, [this] { return ran_ && watched_; });
}

// Ends the operation in progress, here and on the other ranks.
void GlooEngine::close() {
  if (shared_) shared_->close();
  mesh_->close();
}

void GlooEngine::wake() {
  changed_.notify_all();
  has_work_.notify_one();
}

// ---- the thread that runs the operations

void GlooEngine::run_all() {
  begin_thread("gloo");
  std::unique_lock lock(mutex_);
  do {
    has_work_.wait(
        lock, [this] { return stopping_ || !failure_.empty() || (done_ < wanted_ && !running_); });
  } while (!stopping_ && failure_.empty() && run_first(lock));
  ran_ = true;
  changed_.notify_all();
}

// Runs the first operation of the queue. Returns false, with failure_ set, if it failed.
bool GlooEngine::run_first(std::unique_lock<std::mutex>& lock) {
  const GlooOperation& operation = queue_.front();
  running_ = true;
  due_ = Clock::now() + timeout_;
  lock.unlock();
  const bool done = run(operation);
  lock.lock();
  running_ = false;
  if (done) {
    done_ = operation.collective.sequence;
    queue_.pop_front();
    due_ = Clock::now() + timeout_;  // of the next one
  }
  changed_.notify_all();
  if (done_ < wanted_) has_work_.notify_one();
  return done;
}

// Returns false, with failure_ set, if the operation failed. Throws if memory is used up.
bool GlooEngine::run(const GlooOperation& operation) {
  const Collective& c = operation.collective;
  const auto due = Clock::now() + timeout_;
  try {
    if (group_.options.check_collectives) {
      const std::string differences = differences_of(c, group_, prefix_ + "check/");
      if (!differences.empty()) {
        postmortem_.leave(differences);
        diagnose(c, false, "");
        return false;
      }
    }
    if (operation.message.bytes)
      shared_->finish(operation.message, until(due));
    else
      operation.run({mesh_->context(), uint32_t(c.sequence), until(due)});
    recorder_.finish(c.sequence);
    return true;
  } catch (const std::bad_alloc&) {  // not the network's fault: it ends this rank with exit 6
    throw;
  } catch (const std::exception& error) {
    diagnose(c, Clock::now() >= due - Timeout(20), plain(error.what()));
    return false;
  }
}

void GlooEngine::diagnose(const Collective& c, bool timed_out, const std::string& symptom) {
  const std::lock_guard searching(search_);
  Clock::duration left;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
    left = due_ - Clock::now();
  }
  const bool away = left > timeout_ / 2 || left < -kLate - kSearch;
  const std::string why = postmortem_.why(
      c, recorder_.started(), timed_out, symptom, [this] { close(); }, away);
  set_failure(cat("gloo: ", place_of(c), ": ", why));
}

void GlooEngine::set_failure(const std::string& failure) {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = failure;
  wake();
}

// ---- the thread that watches the connections

void GlooEngine::watch() {
  begin_thread("gloo watch");
  const bool broken = mesh_->watch();
  std::unique_lock lock(mutex_);
  if (!cause_.empty()) {
    lock.unlock();
    postmortem_.leave(cause_);
    close();
    lock.lock();
  } else if (broken) {
    lock.unlock();
    postmortem_.report(recorder_.started(), false);
    lock.lock();
    const auto over = [this] { return stopping_ || !failure_.empty(); };
    while (!over()) {
      changed_.wait(lock, [&] { return !queue_.empty() || over(); });
      // Runs all that is queued. What is still there after kGrace needs a rank that has left.
      wanted_ = recorder_.started();
      has_work_.notify_one();
      changed_.wait_for(lock, kGrace, [&] { return queue_.empty() || over(); });
      if (queue_.empty() || over()) continue;
      const Collective first = queue_.front().collective;
      lock.unlock();
      diagnose(first, false, "closed by peer");
      lock.lock();
    }
  }
  watched_ = true;
  changed_.notify_all();
}

}  // namespace bellows
