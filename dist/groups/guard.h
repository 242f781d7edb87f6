// Guard: numbers, records and watches the collectives of one group, and finds out which rank made
// one fail, and why.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include "dist/groups/process_group.h"
#include "dist/rendezvous/sockets.h"

namespace bellows {

// A collective and how a rank started it.
struct Collective {
  std::string op;  // "all_reduce (mean)", "broadcast (root 0)", "barrier"
  int64_t elements = 0;
  DType dtype = DType::f32;
  std::string what;      // name that the caller gave it: "bucket 2"
  int64_t step = 0;      // update in progress; 0: none yet
  int64_t sequence = 0;  // number in the group, from 1; equal on all ranks
};

// Collectives run one after the other, in the order in which they were started. The guard's thread
// asks the store whether another rank has ended: the store notices the death of a process, and a
// rank reports its own failure. The guard then gives the running collective 300 ms, because a rank
// that has done its part may leave. The guard also limits each collective to dist.timeout_s.
//
// After a failure each rank reports to the store how far it got. From these reports the others
// learn which ranks are dead, stuck or late. Thread-safe. Counters: dist.collectives (all of them,
// also votes, evaluations and barriers; buckets alone are dist.buckets), dist.bytes (of the
// tensors, not of the wire).
class Guard {
 public:
  // `prefix` begins the names of its keys in the store. close() ends the running collective, here
  // and on the other ranks. The guard's thread calls poll(): every 2 ms while it returns true, else
  // every 0.3 s and after wake().
  Guard(const GroupContext& group, const std::string& backend, const std::string& prefix,
        std::function<void()> close, std::function<bool()> poll = {});
  ~Guard();
  Guard(Guard&&) = delete;

  // Numbers and records a collective. With dist.check_collectives, all ranks must start equal ones.
  // Throws as check() does.
  void start(Collective& c);
  // Marks the collective as running; it must live until done(). Returns the time by which it must
  // be done. Later calls for the same collective change nothing.
  Clock::time_point begin(const Collective& c);
  void done(int64_t sequence);
  // Waits up to `limit`. Returns true if the collective is done and the group lives.
  bool is_done(int64_t sequence, Timeout limit = Timeout(0));
  // Blocks until the collective is done. Throws Error, exit 7, if it failed.
  void wait(int64_t sequence);
  // Throws Error, exit 7, if the group has failed. Waits while the cause is searched.
  void check() const;
  void wake();

  // Call when `c` failed or takes too long. Closes the group and finds the cause, which check() and
  // wait() then throw. Takes up to 1.2 s, also if rank 0 is stuck; later requests to the store
  // fail. `symptom`: the library's message.
  void diagnose(const Collective& c, const std::string& symptom);
  // Call when this rank leaves for a reason of its own. The others report it. Takes up to 0.5 s.
  void leave(const std::string& cause);
  // Call when this rank starts no more collectives.
  void end();
  // Returns a line for each recorded collective, oldest first, with wall times in UTC:
  // "collective 7, step 2: barrier: end; started 12:30:01.250, done after 1.21 ms"
  std::string report() const;

 private:
  struct Entry {
    Collective collective;
    int64_t started_us;    // Unix time
    int64_t done_us = -1;  // -1: not done
  };

  void watch();
  void ask();
  void tell(bool timed_out);
  void compare(const Collective& c);
  std::string search(const Collective& c, bool timed_out, bool away, const std::string& symptom);
  std::string key(const char* name, int rank) const { return cat(prefix_, name, "/", rank); }

  const GroupContext group_;
  const std::string backend_, prefix_;
  const std::function<void()> close_;
  const std::function<bool()> poll_;  // may be null
  mutable std::mutex search_;         // held while the cause is searched; locked before mutex_

  mutable std::mutex mutex_;         // guards all below but thread_
  std::condition_variable changed_;  // done_ and failure_
  std::condition_variable wake_;     // wakes the guard's thread
  std::deque<Entry> entries_;        // the last dist.flight_recorder ones; consecutive numbers
  int64_t started_ = 0, done_ = 0;   // sequence numbers of the last collective started, and done
  const Collective* running_ = nullptr;
  Clock::time_point begun_, due_;  // when the running collective began, and must be done
  bool others_ended_ = false;      // at least one other rank has ended
  bool told_ = false;              // this rank's report is in the store
  std::string failure_;            // why the group is dead; "" while it lives
  Clock::time_point asleep_since_ = Clock::time_point::max();  // max() while awake
  std::optional<Clock::time_point> overslept_at_;              // time of the last too long sleep
  bool woken_ = false, stopping_ = false;
  std::thread thread_;  // uses all above
};

}  // namespace bellows
