// nccl: collectives between GPUs, by NVIDIA's NCCL. They run on a stream of their own, which events
// order with the compute stream. So the host does not wait for gradients, and cuda_graph captures
// an update with its collectives. Another thread aborts those that hang, also inside a graph.
#include "core/config/visitor.h"
#include "core/device/graph.h"
#include "core/tensor/foreach.h"
#include "dist/groups/communicator.h"
#include "dist/groups/guard.h"

namespace bellows {

namespace {
struct NcclOptions {
  int64_t max_ctas = 0;  // 0: NCCL decides
};
void visit(Visitor& v, NcclOptions& o) {
  v("max_ctas", o.max_ctas, "GPU blocks that a collective may occupy beside backward; 0: NCCL's",
    {.min = 0, .max = 64});
}

class Nccl : public ProcessGroup {
 public:
  Nccl(const NcclOptions& options, const GroupContext& context)
      : context_(context),
        prefix_(context.new_prefix("nccl")),
        communicator_(make_communicator(context_, prefix_, options.max_ctas)),
        token_(zeros({1}, DType::f32, Device::cuda)),
        guard_(
            context_, "nccl", prefix_, [this] { communicator_->abort(); },
            [this] { return poll(); }) {}
  // Aborts the communicator of a group that has failed, or of a rank that ends with an error,
  // instead of waiting for other ranks.
  ~Nccl() override {
    if (!guard_.is_done(last_, kDrain)) communicator_->abort();
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
    start({.op = "barrier", .what = what, .step = step},
          [&](Communicator& c) { c.all_reduce(token_, Reduction::sum); });
    guard_.wait(last_);
  }
  void graph_launched() override {
    Collective collective{.op = "graph", .what = "captured update", .step = step};
    guard_.start(collective);
    last_ = collective.sequence;
    const auto done = std::make_shared<Event>(Device::cuda);
    done->record(current_stream(Device::cuda));
    watch(collective, done);
  }
  std::string flight_report() const override { return guard_.report(); }

 private:
  using Queue = std::function<void(Communicator&)>;
  struct Flight {
    Collective collective;
    std::shared_ptr<Event> done;  // null: it was captured, and does not run yet
  };
  static constexpr Timeout kDrain{500};

  void leave(const std::string& cause) override { guard_.leave(cause); }

  Work start(const std::string& op, const Tensor& t, const std::string& what, const Queue& queue) {
    return start({.op = op, .elements = t.numel(), .dtype = t.dtype(), .what = what, .step = step},
                 queue);
  }
  // The communication stream waits for all work queued so far on the current one.
  Work start(Collective collective, const Queue& queue) {
    guard_.start(collective);
    last_ = collective.sequence;
    const Stream stream = communicator_->stream();
    Event computed(Device::cuda);
    computed.record(current_stream(Device::cuda));
    computed.hold(stream);
    try {
      queue(*communicator_);
    } catch (const Error& error) {
      if (error.exit != Exit::distributed) throw;
      guard_.diagnose(collective, error.what());
      guard_.check();
    }
    auto done = std::make_shared<Event>(Device::cuda);
    done->record(stream);
    watch(collective, capturing() ? nullptr : done);
    return {[done, &guard = guard_] {
      guard.check();
      done->hold(current_stream(Device::cuda));
    }};
  }
  void watch(const Collective& collective, const std::shared_ptr<Event>& done) {
    {
      const std::lock_guard lock(mutex_);
      flights_.push_back({collective, done});
    }
    guard_.wake();
  }

  // Runs on the guard's thread. Finds collectives that have ended, and errors that NCCL's threads
  // or kernels found. Returns true while any are in flight.
  bool poll() {
    const std::lock_guard lock(mutex_);
    for (; !flights_.empty(); flights_.pop_front()) {
      const auto& [collective, done] = flights_.front();
      guard_.begin(collective);
      bool ready = false;
      std::string symptom;
      try {
        ready = !done || done->ready();
        if (!ready) symptom = communicator_->error();
      } catch (const Error& error) {  // the device failed
        symptom = error.what();
      }
      if (!symptom.empty()) guard_.diagnose(collective, symptom);
      if (!ready) return true;
      guard_.done(collective.sequence);
    }
    return false;
  }

  const GroupContext context_;
  const std::string prefix_;  // begins the names of its keys in the store
  const std::unique_ptr<Communicator> communicator_;
  const Tensor token_;          // operand of barriers
  int64_t last_ = 0;            // sequence number of the last collective that was started
  std::mutex mutex_;            // guards flights_
  std::deque<Flight> flights_;  // in order
  Guard guard_;                 // its thread calls poll()
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
