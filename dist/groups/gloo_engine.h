// GlooEngine: the threads of a Gloo process group, and what they share with it.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include "dist/groups/gloo_mesh.h"
#include "dist/groups/postmortem.h"
#include "dist/groups/process_group.h"
#include "dist/groups/shared_memory.h"
#include "dist/rendezvous/sockets.h"

namespace bellows {

// How to perform a collective over TCP, within `timeout` for each wait.
struct GlooCall {
  std::shared_ptr<gloo::Context> context;
  uint32_t tag;
  Timeout timeout;
  template <class Options> Options options() const {  // Gloo's, for one of its functions
    Options options(context);
    options.setTag(tag);
    options.setTimeout(timeout);
    return options;
  }
};

// A collective that was started.
struct GlooOperation {
  Collective collective;
  std::function<void(const GlooCall&)> run;   // over TCP, on any thread
  SharedMemory::Message message = {};         // of 0 bytes: always over TCP
};

// Operations run in the order in which they were started. If the ranks share memory, wait() runs
// those that have not begun: the thread that needs the result is awake already. Otherwise a thread
// of the engine does, while the caller computes, unless the other ranks need nothing more of this
// one. Another thread watches the connections, so that a rank notices a dead one while it computes,
// and reports that it is alive itself. Both share ownership of this object, because a thread that
// is stuck in Gloo cannot be joined. Thread-safe.
class GlooEngine {
 public:
  // Returns once all ranks are connected. `share`: exchange values through memory if all can.
  GlooEngine(const GroupContext& group, bool share);

  void run_all();  // the first thread
  void watch();    // the second thread

  // Returns the sequence number. Throws Error, exit 7, if the group is dead.
  int64_t start(GlooOperation operation);
  // Blocks until the operation with that number has ended: for up to dist.timeout_s after it began,
  // and two more seconds to find the cause of a failure. Throws Error, exit 7, if it failed.
  void wait(int64_t sequence);
  void abort(const std::string& cause);
  // Ends both threads. Returns false if one is stuck.
  bool stop();
  std::string report() const { return recorder_.report(); }
  bool shares_memory() const { return shared_ != nullptr; }

 private:
  bool run_first(std::unique_lock<std::mutex>& lock);
  bool run(const GlooOperation& operation);
  bool caller_may_run(const GlooOperation& operation) const;
  void close();
  void wake();
  void diagnose(const Collective& c, bool timed_out, const std::string& symptom);
  void set_failure(const std::string& failure);

  const GroupContext group_;
  const Timeout timeout_;
  const std::string prefix_;  // of its keys in the store
  Postmortem postmortem_;
  FlightRecorder recorder_;
  std::mutex search_;  // held during the search for the cause of a failure

  const std::unique_ptr<GlooMesh> mesh_;
  const std::unique_ptr<SharedMemory> shared_;  // null: all values go over TCP

  std::mutex mutex_;                  // guards all below
  std::condition_variable changed_;   // all below
  std::condition_variable has_work_;  // for the thread that runs operations
  std::deque<GlooOperation> queue_;
  bool running_ = false;  // the first one of the queue
  int64_t done_ = 0;      // sequence number of the last operation that has ended
  int64_t wanted_ = 0;    // and of the last one that must not be left to wait()
  std::chrono::steady_clock::time_point due_;  // deadline of the first one
  std::string failure_;                        // why the group is dead; "" while it lives
  std::string cause_;                          // argument of abort(), for the other ranks
  bool stopping_ = false;
  bool ran_ = false, watched_ = false;  // run_all() and watch() are done
};

}  // namespace bellows
