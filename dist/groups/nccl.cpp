// nccl: collectives between GPUs, by NVIDIA's NCCL. They run on a stream of their own, which events
// order with the compute stream. So the host does not wait for gradients, and cuda_graph captures
// an update with its collectives. Another thread aborts those that hang, also inside a graph.
#include <condition_variable>
#include <deque>
#include <optional>
#include "core/config/visitor.h"
#include "core/device/graph.h"
#include "core/device/start_thread.h"
#include "core/tensor/foreach.h"
#include "dist/groups/communicator.h"
#include "dist/groups/postmortem.h"
#include "dist/rendezvous/sockets.h"

namespace bellows {

namespace {
struct NcclOptions {
  int64_t max_ctas = 0;  // 0: NCCL decides
};
void visit(Visitor& v, NcclOptions& o) {
  v("max_ctas", o.max_ctas, "GPU blocks that a collective may occupy beside backward; 0: NCCL's",
    {.min = 0, .max = 64});
}

// Watches the collectives in flight, on a thread of its own, which queries their events. Aborts the
// communicator if one takes longer than dist.timeout_s, if NCCL reports an error or if another rank
// fails, so that nothing on the device waits forever. Diagnoses these failures as Gloo's are
// (dist/groups/postmortem.h). Thread-safe.
class NcclWatch {
 public:
  NcclWatch(const GroupContext& group, const std::string& prefix, Communicator& communicator)
      : group_(group), communicator_(communicator), recorder_(group.options.flight_recorder) {
    if (group.store) postmortem_.emplace(group, prefix + "end/");
    thread_ = start_thread("nccl watch", [this] { run_thread(); });
  }
  ~NcclWatch() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  NcclWatch(NcclWatch&&) = delete;

  // Records that a collective starts. Returns its sequence number. Throws Error, exit 7, if the
  // group is dead.
  int64_t start(const Collective& collective) {
    check();
    return recorder_.start(collective);
  }
  // Calls queue(), which queues the collective. Throws Error, exit 7, with the diagnosis if that
  // fails.
  void run(const Collective& collective, const std::function<void()>& queue) {
    try {
      queue();
    } catch (const Error& error) {
      if (error.exit != Exit::distributed) throw;
      diagnose(collective, false, error.what());
      check();
    }
  }
  // Watches the collective until `done`. Null: it was captured and does not run yet.
  void watch(const Collective& collective, std::shared_ptr<Event> done) {
    if (!done) return recorder_.finish(collective.sequence);
    const std::lock_guard lock(mutex_);
    if (flights_.empty()) due_ = Clock::now() + group_.timeout();
    flights_.push_back({collective, std::move(done)});
    changed_.notify_all();
  }
  // Blocks until the collective with that number has ended. Throws Error, exit 7, if it failed.
  void wait(int64_t sequence) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= sequence || !failure_.empty(); });
    if (done_ < sequence) fail(Exit::distributed, failure_);
  }
  // Throws Error, exit 7, if the group is dead. Blocks while the cause of a failure is searched.
  void check() const {
    const std::lock_guard searching(search_);  // the streams are free before the cause is known
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) fail(Exit::distributed, failure_);
  }
  void abort(const std::string& cause) {
    {
      const std::lock_guard lock(mutex_);
      if (!failure_.empty()) return;
      failure_ = "nccl: " + cause;
      changed_.notify_all();
    }
    if (postmortem_) postmortem_->leave(cause);
    communicator_.abort();
  }
  // Waits up to half a second. Returns true if nothing is in flight then and nothing has failed.
  bool drain() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kDrain, [this] { return flights_.empty() || !failure_.empty(); });
    return flights_.empty() && failure_.empty();
  }
  std::string report() const { return recorder_.report(); }

 private:
  static constexpr Timeout kPoll{2}, kDrain{500};
  // Interval of asking the store whether another rank has failed. Shorter than the time for which a
  // rank waits for the others' reports.
  static constexpr Timeout kAsk{300};
  struct Flight {
    Collective collective;
    std::shared_ptr<Event> done;
  };

  void diagnose(const Collective& c, bool timed_out, const std::string& symptom) {
    const std::lock_guard searching(search_);
    {
      const std::lock_guard lock(mutex_);
      if (!failure_.empty()) return;
    }
    const auto close = [this] { communicator_.abort(); };
    std::string why =
        timed_out ? cat("not done within ", group_.options.timeout_s, " s; raise dist.timeout_s")
                  : symptom;
    if (postmortem_)
      why = postmortem_->why(c, recorder_.started(), timed_out, symptom, close);
    else
      close();
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = cat("nccl: ", place_of(c), ": ", why);
    changed_.notify_all();
  }

  void run_thread() {
    begin_thread("nccl watch");
    auto ask_at = Clock::now() + kAsk;
    bool others_failed = false;
    std::unique_lock lock(mutex_);
    while (!stopping_ && failure_.empty()) {
      if (flights_.empty())
        changed_.wait_for(lock, kAsk, [this] { return stopping_ || !flights_.empty(); });
      else
        changed_.wait_for(lock, kPoll, [this] { return stopping_ || !failure_.empty(); });
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
      const bool timed_out = late && symptom.empty() && ended == 0;
      if (ended < flights.size() && (!symptom.empty() || timed_out || others_failed))
        diagnose(flights[ended].collective, timed_out, symptom);
      if (postmortem_ && Clock::now() >= ask_at) {
        ask_at = Clock::now() + kAsk;
        if (others_failed = postmortem_->failed(); others_failed)
          postmortem_->report(recorder_.started(), false);
      }
      lock.lock();
      if (!ended) continue;
      done_ = flights[ended - 1].collective.sequence;
      flights_.erase(flights_.begin(), flights_.begin() + std::ptrdiff_t(ended));
      due_ = Clock::now() + group_.timeout();
      changed_.notify_all();
    }
  }

  const GroupContext& group_;
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

class Nccl : public ProcessGroup {
 public:
  Nccl(const NcclOptions& options, const GroupContext& context)
      : context_(context),
        prefix_(context.new_prefix("nccl")),
        communicator_(make_communicator(context_, prefix_, options.max_ctas)),
        watch_(context_, prefix_, *communicator_),
        token_(zeros({1}, DType::f32, Device::cuda)) {}
  // Aborts the communicator of a group that has failed, or of a rank that ends with an error,
  // instead of waiting for other ranks.
  ~Nccl() override {
    if (!watch_.drain()) communicator_->abort();
  }

  int rank() const override { return context_.ranks.rank; }
  int world() const override { return context_.ranks.world; }
  std::string backend() const override { return "nccl"; }
  bool on_streams() const override { return true; }

  Work all_reduce(const Tensor& t, Reduction reduction, const std::string& what) override {
    check_collective(*this, Device::cuda, t, reduction, what);
    t.raise_version();
    return start(cat("all_reduce (", name_of(reduction), ")"), t, what,
                 [&](Communicator& c) { c.all_reduce(t, reduction); });
  }
  Work broadcast(const Tensor& t, int root, const std::string& what) override {
    check_collective(*this, Device::cuda, t, Reduction::sum, what);
    t.raise_version();
    return start(cat("broadcast (root ", root, ")"), t, what,
                 [&](Communicator& c) { c.broadcast(t, root); });
  }
  Work all_gather(const Tensor& mine, const Tensor& all, const std::string& what) override {
    check_collective(*this, Device::cuda, mine, all, what);
    all.raise_version();
    return start("all_gather", mine, what, [&](Communicator& c) { c.all_gather(mine, all); });
  }
  void barrier(const std::string& what) override {
    Collective collective{.op = "barrier", .what = what, .step = step};
    start(collective, [&](Communicator& c) { c.all_reduce(token_, Reduction::sum); });
    watch_.wait(collective.sequence);
  }
  void graph_launched() override {
    Collective collective{.op = "graph", .what = "captured update", .step = step};
    collective.sequence = watch_.start(collective);
    const auto done = std::make_shared<Event>(Device::cuda);
    done->record(current_stream(Device::cuda));
    watch_.watch(collective, done);
  }
  std::string flight_report() const override { return watch_.report(); }

 private:
  using Queue = std::function<void(Communicator&)>;

  void leave(const std::string& cause) override { watch_.abort(cause); }

  Work start(const std::string& op, const Tensor& t, const std::string& what, const Queue& queue) {
    Collective collective{
        .op = op, .elements = t.numel(), .dtype = t.dtype(), .what = what, .step = step};
    return start(collective, queue);
  }
  // The communication stream waits for all work queued so far on the current one.
  Work start(Collective& collective, const Queue& queue) {
    collective.sequence = watch_.start(collective);
    if (context_.options.check_collectives && world() > 1) compare(collective);
    const Stream stream = communicator_->stream();
    Event computed(Device::cuda);
    computed.record(current_stream(Device::cuda));
    computed.hold(stream);
    watch_.run(collective, [&] { queue(*communicator_); });
    auto done = std::make_shared<Event>(Device::cuda);
    done->record(stream);
    watch_.watch(collective, capturing() ? nullptr : done);
    return {[done, &watch = watch_] {
      watch.check();
      done->hold(current_stream(Device::cuda));
    }};
  }
  void compare(const Collective& collective) {
    const std::string differences = differences_of(collective, context_, prefix_ + "check/");
    if (differences.empty()) return;
    watch_.abort(differences);
    watch_.check();
  }

  const GroupContext context_;
  const std::string prefix_;  // of its keys in the store
  const std::unique_ptr<Communicator> communicator_;
  NcclWatch watch_;
  const Tensor token_;  // operand of barriers
};
}  // namespace

static std::unique_ptr<ProcessGroup> nccl_group(const NcclOptions& options,
                                                const GroupContext& context) {
  CHECK(context.device == Device::cuda, "dist.backend: nccl, but the device is ", context.device,
        "; write  dist.backend: auto");
  CHECK(make_communicator,
        "dist.backend: nccl, but this build lacks it; build where nccl.h is "
        "installed, or write  dist.backend: gloo");
  auto group = std::make_unique<Nccl>(options, context);
  group->barrier("start");
  return group;
}
static const AddEntry<MakeGroup> nccl_entry("nccl",
                                            "tensors on GPUs, of which each rank has its own",
                                            nccl_group);

}  // namespace bellows
