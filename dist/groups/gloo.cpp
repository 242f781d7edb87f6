// gloo: collectives over TCP between CPUs, by the Gloo library. Tensors of a GPU are copied through
// pinned memory.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/scatter.h>
#include <algorithm>
#include <thread>
#include "core/device/graph.h"
#include "dist/groups/gloo_engine.h"
#include "dist/groups/reduce_function.h"
#include "dist/groups/staging.h"

namespace bellows {

namespace {
using Context = std::shared_ptr<gloo::Context>;

// to = sum or mean of `from` over the ranks, n values each; `from` may be `to`. With two ranks the
// mean is halved during the addition, with more it is divided at the end. Both give the same bits.
void ring_all_reduce(const Context& context, uint32_t tag, Timeout timeout, DType dtype, size_t n,
                     void* from, void* to, Reduction reduction) {
  const bool pair_mean = reduction == Reduction::mean && context->size == 2;
  gloo::AllreduceOptions options(context);
  options.setTag(tag);
  options.setTimeout(timeout);
  visit_dtype(dtype, [&]<class T>(T) {
    if (to != from) options.setInput(static_cast<T*>(from), n);
    options.setOutput(static_cast<T*>(to), n);
  });
  options.setReduceFunction([=](void* c, const void* a, const void* b, size_t count) {
    add_scaled(dtype, c, a, b, count, pair_mean ? 0.5 : 1);
  });
  gloo::allreduce(options);
  if (reduction == Reduction::mean && !pair_mean) divide(dtype, to, n, context->size);
}

class GlooWork : public Work {
 public:
  GlooWork(std::shared_ptr<GlooEngine> engine, int64_t sequence,
           std::shared_ptr<const StagedCopies> copies)
      : engine_(std::move(engine)), sequence_(sequence), copies_(std::move(copies)) {}
  void wait() override {
    engine_->wait(sequence_);
    if (copies_) copies_->hold();
  }

 private:
  const std::shared_ptr<GlooEngine> engine_;
  const int64_t sequence_;
  const std::shared_ptr<const StagedCopies> copies_;  // null on the CPU
};

class Gloo : public ProcessGroup {
 public:
  // Returns once all ranks are connected.
  explicit Gloo(const GroupContext& context)
      : ranks_(context.ranks),
        device_(context.device),
        staging_(device_ == Device::cpu ? nullptr : std::make_shared<Staging>()),
        engine_(std::make_shared<GlooEngine>(context)) {
    threads_.emplace_back([engine = engine_] { engine->run_all(); });
    threads_.emplace_back([engine = engine_] { engine->watch(); });
  }
  ~Gloo() override {
    const bool ended = engine_->stop();
    for (std::thread& thread : threads_) ended ? thread.join() : thread.detach();
  }

  int rank() const override { return ranks_.rank; }
  int world() const override { return ranks_.world; }
  std::string backend() const override { return "gloo"; }

  WorkPtr all_reduce(const Tensor& t, Reduction reduction, const std::string& what) override {
    check_collective(*this, device_, t, reduction, what);
    t.raise_version();
    return start(cat("all_reduce (", name_of(reduction), ")"), {{t, true, true}}, what,
                 [=, dtype = t.dtype(), n = t.numel()](const Context& context, uint32_t tag,
                                                       Timeout timeout, const Tensors& host) {
                   ring_all_reduce(context, tag, timeout, dtype, n, host[0].bytes(),
                                   host[0].bytes(), reduction);
                 });
  }

  WorkPtr broadcast(const Tensor& t, int root, const std::string& what) override {
    check_collective(*this, device_, t, Reduction::sum, what);
    t.raise_version();
    return start(cat("broadcast (root ", root, ")"), {{t, rank() == root, rank() != root}}, what,
                 [=](const Context& context, uint32_t tag, Timeout timeout, const Tensors& host) {
                   gloo::BroadcastOptions options(context);
                   options.setTag(tag);
                   options.setTimeout(timeout);
                   options.setRoot(root);
                   options.setOutput(host[0].bytes(), host[0].nbytes());
                   gloo::broadcast(options);
                 });
  }

  WorkPtr all_gather(const Tensor& mine, const Tensor& all, const std::string& what) override {
    check_collective(*this, device_, mine, all, Reduction::sum, what);
    all.raise_version();
    return start("all_gather", {{mine, true, false}, {all, false, true}}, what,
                 [](const Context& context, uint32_t tag, Timeout timeout, const Tensors& host) {
                   gloo::AllgatherOptions options(context);
                   options.setTag(tag);
                   options.setTimeout(timeout);
                   options.setInput(host[0].bytes(), host[0].nbytes());
                   options.setOutput(host[1].bytes(), host[1].nbytes());
                   gloo::allgather(options);
                 });
  }

  // Gloo has no reduce_scatter, so each rank reduces everything and keeps its part.
  WorkPtr reduce_scatter(const Tensor& all, const Tensor& mine, Reduction reduction,
                         const std::string& what) override {
    check_collective(*this, device_, mine, all, reduction, what);
    mine.raise_version();
    return start(cat("reduce_scatter (", name_of(reduction), ")"),
                 {{all, true, false}, {mine, false, true}}, what,
                 [=, dtype = all.dtype(), n = all.numel()](const Context& context, uint32_t tag,
                                                           Timeout timeout, const Tensors& host) {
                   std::vector<std::byte> reduced(host[0].nbytes());
                   ring_all_reduce(context, tag, timeout, dtype, n, host[0].bytes(), reduced.data(),
                                   reduction);
                   const size_t bytes = host[1].nbytes();
                   std::copy_n(reduced.data() + context->rank * bytes, bytes, host[1].bytes());
                 });
  }

  void gather(const Tensor& mine, const Tensor& all, int root, const std::string& what) override {
    const bool here = rank() == root;
    check_root(mine, all, here, what);
    std::vector<StagedPart> parts = {{mine, true, false}};
    if (here) parts.push_back({all, false, true});
    start(cat("gather (root ", root, ")"), parts, what,
          [=](const Context& context, uint32_t tag, Timeout timeout, const Tensors& host) {
            gloo::GatherOptions options(context);
            options.setTag(tag);
            options.setTimeout(timeout);
            options.setRoot(root);
            options.setInput(host[0].bytes(), host[0].nbytes());
            if (here) options.setOutput(host[1].bytes(), host[1].nbytes());
            gloo::gather(options);
          })
        ->wait();
    if (here) all.raise_version();
  }

  void scatter(const Tensor& all, const Tensor& mine, int root, const std::string& what) override {
    const bool here = rank() == root;
    check_root(mine, all, here, what);
    std::vector<StagedPart> parts = {{mine, false, true}};
    if (here) parts.push_back({all, true, false});
    start(cat("scatter (root ", root, ")"), parts, what,
          [=](const Context& context, uint32_t tag, Timeout timeout, const Tensors& host) {
            std::vector<std::byte*> shares;
            for (int r = 0; here && r < context->size; ++r)
              shares.push_back(host[1].bytes() + r * host[0].nbytes());
            gloo::ScatterOptions options(context);
            options.setTag(tag);
            options.setTimeout(timeout);
            options.setRoot(root);
            if (here) options.setInputs(shares, host[0].nbytes());
            options.setOutput(host[0].bytes(), host[0].nbytes());
            gloo::scatter(options);
          })
        ->wait();
    mine.raise_version();
  }

  void barrier(const std::string& what) override {
    const auto run = [](const Context& context, uint32_t tag, Timeout timeout) {
      gloo::BarrierOptions options(context);
      options.setTag(tag);
      options.setTimeout(timeout);
      gloo::barrier(options);
    };
    engine_->wait(engine_->start({{.op = "barrier", .what = what, .step = step}, run}));
  }

  void abort(const std::string& why) noexcept override {
    try {
      engine_->abort(step ? cat("rank ", rank(), " left in step ", step, ": ", why)
                          : cat("rank ", rank(), " left: ", why));
    } catch (...) {  // out of memory: the others see that the connections close
    }
  }

  std::string flight_report() const override { return engine_->report(); }

 private:
  using Run = std::function<void(const Context&, uint32_t, Timeout, const Tensors& host)>;

  // Only the root of a gather or scatter has all values.
  void check_root(const Tensor& mine, const Tensor& all, bool here, const std::string& what) const {
    if (here)
      check_collective(*this, device_, mine, all, Reduction::sum, what);
    else
      check_collective(*this, device_, mine, Reduction::sum, what);
  }

  // The first part is the tensor that reports describe.
  WorkPtr start(const std::string& op, const std::vector<StagedPart>& parts,
                const std::string& what, const Run& run) {
    CHECK(!staging_ || !capturing(), "gloo: ", what,
          ": runs on the host, so no graph can capture "
          "it; write  toggles.cuda_graph: off");
    const Tensor& t = parts[0].tensor;
    const auto copies = staging_ ? std::make_shared<StagedCopies>(staging_, parts) : nullptr;
    Tensors host;
    for (const StagedPart& part : parts) host.push_back(part.tensor);
    const auto staged = [=](const Context& context, uint32_t tag, Timeout timeout) {
      if (copies) copies->wait(timeout);
      if (host[0].numel()) run(context, tag, timeout, copies ? copies->host() : host);
      if (copies) copies->copy_back();
    };
    const Collective collective{
        .op = op, .elements = t.numel(), .dtype = t.dtype(), .what = what, .step = step};
    return std::make_unique<GlooWork>(engine_, engine_->start({collective, staged}), copies);
  }

  const Ranks ranks_;
  const Device device_;                     // where tensors are
  const std::shared_ptr<Staging> staging_;  // null on the CPU
  const std::shared_ptr<GlooEngine> engine_;
  std::vector<std::thread> threads_;
};
}  // namespace

static std::unique_ptr<ProcessGroup> gloo_group(const NoOptions&, const GroupContext& context) {
  CHECK(context.ranks.world > 1 && context.store,
        "dist.backend: gloo, but this process is alone; write  dist.backend: auto");
  auto group = std::make_unique<Gloo>(context);
  group->barrier("start");
  return group;
}
static const AddEntry<MakeGroup> entry(
    "gloo", "tensors on the CPU or, through pinned memory, on a GPU, over TCP", gloo_group);

}  // namespace bellows
