// NcclWatch: the thread that watches the collectives of an NCCL process group.
#pragma once
#include <condition_variable>
#include <deque>
#include <optional>
#include <thread>
#include "dist/groups/communicator.h"
#include "dist/groups/postmortem.h"

namespace bellows {

// Queries the events of collectives in flight. Aborts the communicator if one takes longer than
// dist.timeout_s, if NCCL reports an error or if another rank fails, so that nothing on the device
// waits forever. Diagnoses these failures as Gloo's are (dist/groups/postmortem.h). Thread-safe.
class NcclWatch {
 public:
  NcclWatch(const GroupContext& group, const std::string& prefix, Communicator& communicator);
  ~NcclWatch();
  NcclWatch(NcclWatch&&) = delete;

  // Records that a collective starts. Returns its sequence number. Throws Error, exit 7, if the
  // group is dead.
  int64_t start(const Collective& collective);
  // Calls queue(), which queues the collective. Throws Error, exit 7, with the diagnosis if that
  // fails.
  void run(const Collective& collective, const std::function<void()>& queue);
  // Watches the collective until `done`. Null: it was captured and does not run yet.
  void watch(const Collective& collective, std::shared_ptr<Event> done);
  // Blocks until the collective with that number has ended. Throws Error, exit 7, if it failed.
  void wait(int64_t sequence);
  // Throws Error, exit 7, if the group is dead. Blocks while the cause of a failure is searched.
  void check() const;
  void abort(const std::string& cause);
  // Waits up to half a second. Returns true if nothing is in flight then and nothing has failed.
  bool drain();
  std::string report() const { return recorder_.report(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Flight {
    Collective collective;
    std::shared_ptr<Event> done;
  };
  void run_thread();
  void diagnose(const Collective& c, bool timed_out, const std::string& symptom);

  const double timeout_s_;
  Communicator& communicator_;
  std::optional<Postmortem> postmortem_;  // none in a world of one
  FlightRecorder recorder_;
  mutable std::mutex search_;  // held during the search for the cause of a failure

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<Flight> flights_;
  Clock::time_point due_;  // deadline of the first one
  int64_t done_ = 0;       // sequence number of the last collective that has ended
  std::string failure_;    // why the group is dead; "" while it lives
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace bellows
