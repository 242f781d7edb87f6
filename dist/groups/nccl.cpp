// nccl: collectives between GPUs, by NVIDIA's NCCL.
#include "core/config/visitor.h"
#include "core/device/graph.h"
#include "core/tensor/foreach.h"
#include "dist/groups/nccl_watch.h"

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
  Nccl(const GroupContext& context, const CommunicatorOptions& options)
      : context_(context),
        options_(options),
        communicator_(make_communicator(options)),
        watch_(std::make_unique<NcclWatch>(context, options.prefix, *communicator_)),
        token_(zeros({1}, DType::f32, Device::cuda)) {}
  // Aborts the communicator of a group that has failed, or of a rank that ends with an error,
  // instead of waiting for other ranks.
  ~Nccl() override {
    if (!watch_->drain()) communicator_->abort();
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
    watch_->wait(collective.sequence);
  }
  void graph_launched() override {
    Collective collective{.op = "graph", .what = "captured update", .step = step};
    collective.sequence = watch_->start(collective);
    const auto done = std::make_shared<Event>(Device::cuda);
    done->record(current_stream(Device::cuda));
    watch_->watch(collective, done);
  }
  std::string flight_report() const override { return watch_->report(); }

 private:
  using Queue = std::function<void(Communicator&)>;

  void leave(const std::string& cause) override { watch_->abort(cause); }

  Work start(const std::string& op, const Tensor& t, const std::string& what, const Queue& queue) {
    Collective collective{
        .op = op, .elements = t.numel(), .dtype = t.dtype(), .what = what, .step = step};
    return start(collective, queue);
  }
  // The communication stream waits for all work queued so far on the current one.
  Work start(Collective& collective, const Queue& queue) {
    collective.sequence = watch_->start(collective);
    if (context_.options.check_collectives && world() > 1) compare(collective);
    const Stream stream = communicator_->stream();
    Event computed(Device::cuda);
    computed.record(current_stream(Device::cuda));
    computed.hold(stream);
    watch_->run(collective, [&] { queue(*communicator_); });
    auto done = std::make_shared<Event>(Device::cuda);
    done->record(stream);
    watch_->watch(collective, capturing() ? nullptr : done);
    return {[done, &watch = *watch_] {
      watch.check();
      done->hold(current_stream(Device::cuda));
    }};
  }
  void compare(const Collective& collective) {
    const std::string differences = differences_of(
        collective, *context_.store, options_.prefix + "check/", context_.ranks, options_.timeout);
    if (differences.empty()) return;
    watch_->abort(differences);
    watch_->check();
  }

  const GroupContext context_;
  const CommunicatorOptions options_;
  const std::unique_ptr<Communicator> communicator_;
  const std::unique_ptr<NcclWatch> watch_;
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
  CommunicatorOptions c;
  c.ranks = context.ranks;
  c.store = context.store.get();
  c.timeout = timeout_of(context.options.timeout_s);
  c.max_ctas = options.max_ctas;
  // Equal on all ranks, because they make the same groups in the same order.
  if (c.store) c.prefix = cat("nccl/", c.store->add(cat("nccl/groups/", c.ranks.rank), 1), "/");
  auto group = std::make_unique<Nccl>(context, c);
  group->barrier("start");
  return group;
}
static const AddEntry<MakeGroup> nccl_entry("nccl",
                                            "tensors on GPUs, of which each rank has its own",
                                            nccl_group);

}  // namespace bellows
