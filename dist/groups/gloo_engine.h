// GlooEngine: runs the collectives of a Gloo process group, on a thread of its own or the caller's.
#pragma once
#include "dist/groups/gloo_mesh.h"
#include "dist/groups/guard.h"
#include "dist/groups/shared_memory.h"

namespace bellows {

// Settings of a collective over TCP. `timeout` limits each wait for a peer.
struct GlooCall {
  GlooMesh context;
  uint32_t tag;
  Timeout timeout;
  template <class Options> Options options() const {  // returns the options of a function of Gloo
    Options options(context);
    options.setTag(tag);
    options.setTimeout(timeout);
    return options;
  }
};

// A collective that was started.
struct GlooOperation {
  Collective collective;
  std::function<void(const GlooCall&)> over_tcp;  // may run on any thread
  SharedMemory::Message message;
};

// Operations run in the order in which they were started. If the ranks share memory and this rank
// has put its whole message there, wait() runs the operation: the thread that needs the result is
// awake already. The engine's thread runs all others while the caller computes. Thread- safe; one
// thread starts operations.
class GlooEngine {
 public:
  // Returns once all ranks are connected. `share`: exchange values through memory if all can.
  GlooEngine(const GroupContext& group, bool share);
  ~GlooEngine();

  // Returns the sequence number. Throws Error, exit 7, if the group is dead.
  int64_t start(GlooOperation operation);
  // Blocks until the operation with that number has ended: for up to dist.timeout_s after it began,
  // and two more seconds to find the cause of a failure. Throws Error, exit 7, if it failed.
  void wait(int64_t sequence);
  void abort(const std::string& cause) { guard_.leave(cause); }
  std::string report() const { return guard_.report(); }
  bool shares_memory() const { return shared_ != nullptr; }

 private:
  void run_wanted();
  bool run_up_to(int64_t sequence);
  bool run(const GlooOperation& operation);
  void close();

  const std::string prefix_;                    // begins the names of its keys in the store
  const std::unique_ptr<SharedMemory> shared_;  // null: values go over TCP
  const GlooMesh mesh_;                         // null: values go through memory
  std::mutex run_;                              // held by the thread that runs operations
  std::mutex mutex_;  // guards queue_, wanted_ and stopping_; lock run_ first
  std::condition_variable has_work_;
  std::deque<GlooOperation> queue_;  // operations that have not begun
  int64_t wanted_ = 0;               // the engine's thread runs up to this one
  bool stopping_ = false;
  Guard guard_;
  std::thread thread_;
};

}  // namespace bellows
