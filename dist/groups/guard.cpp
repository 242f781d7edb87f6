#include "dist/groups/guard.h"
#include <fmt/format.h>
#include "core/base/trace.h"
#include "core/base/words.h"
#include "core/device/threads.h"

namespace bellows {

static constexpr Timeout kAsk(300), kPoll(2);  // intervals of asking the store, and of poll()
static constexpr Timeout kGrace(300);          // limit of a collective after another rank has ended
static constexpr Timeout kLate(100);           // added, so that a library's own limit comes first
// Limits: of the whole search for a cause, of waiting for the reports of other ranks, and of
// publishing a cause or ending.
static constexpr Timeout kSearch(1200), kPatience(900), kFarewell(500);

// Returns "all_reduce (mean) of 1024 f32: bucket 2": equal on all ranks that do the same.
static std::string description_of(const Collective& c) {
  if (!c.elements) return cat(c.op, ": ", c.what);
  return cat(c.op, " of ", c.elements, " ", c.dtype, ": ", c.what);
}

static int64_t wall_us() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

// Calls fn with the store, if there is one. Ignores its errors: rank 0 may be gone.
static void quietly(const GroupContext& group, const auto& fn) {
  if (!group.store) return;
  try {
    fn(*group.store);
  } catch (const Error&) {
  }
}

Guard::Guard(const GroupContext& group, const std::string& backend, const std::string& prefix,
             std::function<void()> close, std::function<bool()> poll)
    : group_(group),
      backend_(backend),
      prefix_(prefix + "end/"),
      close_(std::move(close)),
      poll_(std::move(poll)),
      thread_(start_thread(backend + " watch", [this] { watch(); })) {}

Guard::~Guard() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (group_.store) group_.store->end_within(kFarewell);  // also ends requests of thread_
  thread_.join();
  if (group_.store && failure_.empty()) group_.store->end_within(Timeout::max());
}

// ---- the collectives

void Guard::start(Collective& c) {
  trace::count<"dist.collectives">();
  trace::count<"dist.bytes">(c.elements * size_of(c.dtype));
  {
    const std::lock_guard searching(search_);  // waits while the cause is searched
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) fail(Exit::distributed, failure_);
    c.sequence = ++started_;
    entries_.push_back({c, wall_us()});
    if (int64_t(entries_.size()) > group_.options.flight_recorder) entries_.pop_front();
  }
  if (group_.store && group_.options.check_collectives) compare(c);
}

Clock::time_point Guard::begin(const Collective& c) {
  const std::lock_guard lock(mutex_);
  if (running_ && running_->sequence == c.sequence) return due_;
  running_ = &c;
  begun_ = Clock::now();
  due_ = begun_ + (others_ended_ ? kGrace : group_.timeout());
  return due_;
}

void Guard::done(int64_t sequence) {
  const std::lock_guard lock(mutex_);
  running_ = nullptr;
  done_ = sequence;
  const int64_t first = started_ - int64_t(entries_.size()) + 1;
  if (sequence >= first) entries_[sequence - first].done_us = wall_us();
  changed_.notify_all();
}

bool Guard::is_done(int64_t sequence, Timeout limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [&] { return done_ >= sequence || !failure_.empty(); });
  return done_ >= sequence && failure_.empty();
}

void Guard::wait(int64_t sequence) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= sequence || !failure_.empty(); });
  if (done_ < sequence) fail(Exit::distributed, failure_);
}

void Guard::check() const {
  const std::lock_guard searching(search_);  // collectives end before the cause is known
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) fail(Exit::distributed, failure_);
}

void Guard::wake() {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  wake_.notify_one();
}

std::string Guard::report() const {
  const std::lock_guard lock(mutex_);
  std::string lines;
  for (const auto& [c, started, done] : entries_) {
    const int64_t ms = started / 1000, s = ms / 1000;
    lines += fmt::format(
        "collective {}, step {}: {} ({} bytes); started {:02}:{:02}:{:02}.{:03}, {}\n", c.sequence,
        c.step, description_of(c), c.elements * size_of(c.dtype), s / 3600 % 24, s / 60 % 60,
        s % 60, ms % 1000,
        done < 0 ? "not done" : fmt::format("done after {:.2f} ms", double(done - started) / 1e3));
  }
  return lines;
}

// The debug check dist.check_collectives. Compares `c` with the collective of the same number on
// every other rank, through the store. Cost: one read per rank.
void Guard::compare(const Collective& c) {
  const auto key_of = [&](int64_t sequence, int rank) {
    return cat(prefix_, "check/", sequence, "/", rank);
  };
  const int own = group_.ranks.rank;
  Names started;
  const auto due = begin(c);
  try {
    group_.store->set(key_of(c.sequence, own), description_of(c));
    for (int r = 0; r < group_.ranks.world; ++r)
      started.push_back(group_.store->get(key_of(c.sequence, r), until(due)));
    // All ranks have started this collective, so they have read the keys of earlier ones.
    if (c.sequence > 2) group_.store->remove(key_of(c.sequence - 2, own));
  } catch (const Error& error) {
    diagnose(c, error.what());
  }
  for (size_t r = 1; r < started.size(); ++r)
    if (started[r] != started[0]) {
      leave(cat("the ranks differ in collective ", c.sequence, ": rank 0 started \"", started[0],
                "\", rank ", r, " \"", started[r],
                "\"; all must start the same collectives in the same order"));
      break;
    }
  check();
  const std::lock_guard lock(mutex_);
  running_ = nullptr;
}

// ---- the thread

void Guard::watch() {
  begin_thread(backend_ + " watch");
  auto ask_at = Clock::now() + kAsk;
  bool busy = false;
  std::unique_lock lock(mutex_);
  while (failure_.empty()) {
    asleep_since_ = Clock::now();
    wake_.wait_for(lock, busy ? kPoll : kAsk, [this] { return woken_ || stopping_; });
    if (stopping_) return;
    if (Clock::now() - asleep_since_ > group_.timeout()) overslept_at_ = Clock::now();
    asleep_since_ = Clock::time_point::max();
    woken_ = false;
    lock.unlock();
    if (poll_) busy = poll_();
    lock.lock();
    if (failure_.empty() && running_ && Clock::now() >= due_ + kLate) {
      const Collective late = *running_;
      lock.unlock();
      diagnose(late, "closed by peer");
      lock.lock();
    }
    if (Clock::now() < ask_at || others_ended_) continue;
    lock.unlock();
    ask();
    ask_at = Clock::now() + kAsk;
    lock.lock();
  }
}

void Guard::ask() {
  bool ended = group_.store != nullptr;  // no answer from rank 0 counts as an end
  quietly(group_, [&](Store& store) {
    ended = store.wait(prefix_ + "ended", Timeout(0)) || store.wait("gone", Timeout(0));
  });
  if (!ended) return;
  tell(false);
  const std::lock_guard lock(mutex_);
  others_ended_ = true;
  due_ = std::min(due_, Clock::now() + kGrace);
}

// ---- failures

// Reports, once, how many collectives this rank has started. `timed_out`: one of them took too
// long, and no rank had ended.
void Guard::tell(bool timed_out) {
  std::unique_lock lock(mutex_);
  if (std::exchange(told_, true)) return;
  const int64_t started = started_;
  lock.unlock();
  quietly(group_, [&](Store& store) {
    store.set(key("started", group_.ranks.rank), cat(started, timed_out ? " timeout" : ""));
    store.set(prefix_ + "ended", "");
  });
}

void Guard::diagnose(const Collective& c, const std::string& symptom) {
  const std::lock_guard searching(search_);
  Clock::duration waited{};
  {
    const std::lock_guard lock(mutex_);
    if (running_) waited = Clock::now() - begun_;
    running_ = nullptr;
    if (!failure_.empty() || stopping_) return;
  }
  const Timeout limit = group_.timeout();
  const bool timed_out = waited >= limit - Timeout(20);
  const bool away = waited < limit / 2;  // this rank began to wait long after the others
  if (group_.store) group_.store->end_within(kSearch);
  tell(timed_out);
  close_();
  std::string why;
  try {
    why = search(c, timed_out, away, symptom);
  } catch (const Error& error) {
    why = cat("rank 0 left or is stuck: its store does not answer (", error.what(),
              "); look at the last lines of rank 0");
  }
  const std::lock_guard lock(mutex_);
  if (failure_.empty())
    failure_ = cat(backend_, ": ", c.step ? cat("step ", c.step, ", ") : "", c.what, ": ", why);
  changed_.notify_all();
}

void Guard::leave(const std::string& cause) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
    failure_ = cat(backend_, ": ", cause);
    changed_.notify_all();
  }
  quietly(group_, [&](Store& store) {
    store.end_within(kFarewell);
    if (store.add(prefix_ + "causes", 1) == 1) store.set(prefix_ + "cause", cause);
    store.set(prefix_ + "ended", "");
  });
  close_();
}

void Guard::end() {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
    stopping_ = true;
    wake_.notify_all();
  }
  quietly(group_, [&](Store& store) {
    store.end_within(kFarewell);
    store.set(prefix_ + "ended", "");
  });
}

static std::string named(const Names& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + joined(ranks);
}

// Waits for the reports of the other ranks, except for those that are gone. Returns the published
// cause, or which ranks are dead, stuck or late.
std::string Guard::search(const Collective& c, bool timed_out, bool away,
                          const std::string& symptom) {
  const std::string within = cat(" within ", group_.options.timeout_s, " s; ");
  if (!group_.store) return timed_out ? cat("not done", within, "raise dist.timeout_s") : symptom;
  Store& store = *group_.store;
  const auto cause = [&] {
    return store.wait(prefix_ + "cause", Timeout(0)) ? store.get(prefix_ + "cause", kPatience) : "";
  };
  const auto end = Clock::now() + kPatience;
  Names silent, late;
  bool gave_up = false;  // another rank did
  for (int r = 0; r < group_.ranks.world; ++r) {
    if (r == group_.ranks.rank) continue;
    if (const std::string left = cause(); !left.empty()) return left;
    bool reports = false;
    do reports = store.wait(key("started", r), std::min(until(end, Timeout(0)), Timeout(50)));
    while (!reports && until(end, Timeout(0)).count() && !is_gone(store, r));
    if (!reports) silent.push_back(std::to_string(r));
    if (!reports) continue;
    const std::string report = store.get(key("started", r), kPatience);
    if (std::stoll(report) < c.sequence) late.push_back(std::to_string(r));
    gave_up = gave_up || report.ends_with(" timeout");
  }
  timed_out = timed_out || gave_up;
  if (const std::string left = cause(); !left.empty()) return left;
  std::unique_lock lock(mutex_);
  // True if this process was stopped for longer than dist.timeout_s, until a moment ago.
  const auto now = Clock::now();
  const bool stopped = now - asleep_since_ > group_.timeout() ||
                       (overslept_at_ && now - *overslept_at_ < group_.timeout() + 2 * kSearch);
  lock.unlock();
  if (stopped ? gave_up || !silent.empty() : away && gave_up && silent.empty())
    return cat("this rank did not come", within,
               "the others have given up; was it stopped, or its machine too busy?");
  if (!silent.empty() && timed_out)
    return cat(named(silent), " did not answer", within, "is it stopped, or its machine down?");
  if (!silent.empty())
    return cat(named(silent), " left and gave no cause; look at its last lines, and whether the ",
               "system killed it");
  if (!late.empty() && timed_out)
    return cat(named(late), " did not come", within,
               "find out what it is doing, or raise dist.timeout_s");
  if (!late.empty())
    return cat(named(late), " ended earlier; all ranks must start the same collectives");
  if (timed_out)
    return cat("not done", within,
               "all ranks are there, so the network is too slow, or raise dist.timeout_s");
  return cat("a connection broke (", symptom, "); look at the network");
}

}  // namespace bellows
