// gloo: collectives over TCP between CPUs, by the Gloo library.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/scatter.h>
#include <algorithm>
#include <thread>
#include "dist/gloo_engine.h"
#include "dist/reduce_function.h"

namespace bellows {

namespace {
using Context = std::shared_ptr<gloo::Context>;

const char* name_of(Reduction reduction) { return reduction == Reduction::sum ? "sum" : "mean"; }

// to = the sum or the mean over ranks of `from`, which may be `to`. A mean of two ranks is halved
// while it is added, that of more ranks is divided in the end; both give the same bits.
void ring_all_reduce(const Context& context, uint32_t tag, Timeout timeout, const Tensor& from,
                     void* to, Reduction reduction) {
  const DType dtype = from.dtype();
  const size_t n = from.numel();
  const bool pair_mean = reduction == Reduction::mean && context->size == 2;
  gloo::AllreduceOptions options(context);
  options.setTag(tag);
  options.setTimeout(timeout);
  visit_dtype(dtype, [&]<class T>(T) {
    if (to != from.bytes()) options.setInput(from.ptr<T>(), n);
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
  GlooWork(std::shared_ptr<GlooEngine> engine, int64_t sequence)
      : engine_(std::move(engine)), sequence_(sequence) {}
  void wait() override { engine_->wait(sequence_); }

 private:
  const std::shared_ptr<GlooEngine> engine_;
  const int64_t sequence_;
};

class Gloo : public ProcessGroup {
 public:
  // Returns once all ranks are connected.
  explicit Gloo(const GroupContext& context)
      : ranks_(context.ranks), engine_(std::make_shared<GlooEngine>(context)) {
    threads_.emplace_back([engine = engine_] { engine->run_all(); });
    threads_.emplace_back([engine = engine_] { engine->watch(); });
  }
  ~Gloo() override {
    const bool ended = engine_->stop();
    for (std::thread& thread : threads_) ended ? thread.join() : thread.detach();
  }

  int rank() const override { return ranks_.rank; }
  int world() const override { return ranks_.world; }

  WorkPtr all_reduce(const Tensor& t, Reduction reduction, const std::string& what) override {
    check(t, reduction, what);
    t.raise_version();
    return start(cat("all_reduce (", name_of(reduction), ")"), t, what,
                 [=](const Context& context, uint32_t tag, Timeout timeout) {
                   ring_all_reduce(context, tag, timeout, t, t.bytes(), reduction);
                 });
  }

  WorkPtr broadcast(const Tensor& t, int root, const std::string& what) override {
    check(t, Reduction::sum, what);
    t.raise_version();
    return start(cat("broadcast (root ", root, ")"), t, what,
                 [=](const Context& context, uint32_t tag, Timeout timeout) {
                   gloo::BroadcastOptions options(context);
                   options.setTag(tag);
                   options.setTimeout(timeout);
                   options.setRoot(root);
                   options.setOutput(t.bytes(), t.nbytes());
                   gloo::broadcast(options);
                 });
  }

  WorkPtr all_gather(const Tensor& mine, const Tensor& all, const std::string& what) override {
    check_part(mine, all, what);
    all.raise_version();
    return start("all_gather", mine, what,
                 [=](const Context& context, uint32_t tag, Timeout timeout) {
                   gloo::AllgatherOptions options(context);
                   options.setTag(tag);
                   options.setTimeout(timeout);
                   options.setInput(mine.bytes(), mine.nbytes());
                   options.setOutput(all.bytes(), all.nbytes());
                   gloo::allgather(options);
                 });
  }

  // Gloo has none, so each rank reduces everything and keeps its part.
  WorkPtr reduce_scatter(const Tensor& all, const Tensor& mine, Reduction reduction,
                         const std::string& what) override {
    check_part(mine, all, what);
    check(all, reduction, what);
    mine.raise_version();
    return start(cat("reduce_scatter (", name_of(reduction), ")"), all, what,
                 [=](const Context& context, uint32_t tag, Timeout timeout) {
                   std::vector<std::byte> reduced(all.nbytes());
                   ring_all_reduce(context, tag, timeout, all, reduced.data(), reduction);
                   std::copy_n(reduced.data() + context->rank * mine.nbytes(), mine.nbytes(),
                               mine.bytes());
                 });
  }

  void gather(const Tensor& mine, const Tensor& all, int root, const std::string& what) override {
    check(mine, Reduction::sum, what);
    if (rank() == root) check_part(mine, all, what);
    start(cat("gather (root ", root, ")"), mine, what,
          [=](const Context& context, uint32_t tag, Timeout timeout) {
            gloo::GatherOptions options(context);
            options.setTag(tag);
            options.setTimeout(timeout);
            options.setRoot(root);
            options.setInput(mine.bytes(), mine.nbytes());
            if (context->rank == root) options.setOutput(all.bytes(), all.nbytes());
            gloo::gather(options);
          })
        ->wait();
    if (rank() == root) all.raise_version();
  }

  void scatter(const Tensor& all, const Tensor& mine, int root, const std::string& what) override {
    check(mine, Reduction::sum, what);
    if (rank() == root) check_part(mine, all, what);
    start(cat("scatter (root ", root, ")"), mine, what,
          [=](const Context& context, uint32_t tag, Timeout timeout) {
            std::vector<std::byte*> parts;
            for (int r = 0; context->rank == root && r < context->size; ++r)
              parts.push_back(all.bytes() + r * mine.nbytes());
            gloo::ScatterOptions options(context);
            options.setTag(tag);
            options.setTimeout(timeout);
            options.setRoot(root);
            if (!parts.empty()) options.setInputs(parts, mine.nbytes());
            options.setOutput(mine.bytes(), mine.nbytes());
            gloo::scatter(options);
          })
        ->wait();
    mine.raise_version();
  }

  void barrier(const std::string& what) override {
    start({.op = "barrier", .what = what, .step = step}, [](const Context& context, uint32_t tag,
                                                            Timeout timeout) {
      gloo::BarrierOptions options(context);
      options.setTag(tag);
      options.setTimeout(timeout);
      gloo::barrier(options);
    })->wait();
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
  using Run = std::function<void(const Context&, uint32_t, Timeout)>;

  static void check(const Tensor& t, Reduction reduction, const std::string& what) {
    CHECK(t.device() == Device::cpu, "gloo: ", what, ": the tensor is on ", t.device(),
          ", and gloo takes tensors on the CPU; write  dist.backend: nccl");
    CHECK(t.is_dense(), "gloo: ", what, ": needs a dense tensor, got strides ", t.strides());
    CHECK(t.dtype() == DType::i64 || is_float(t.dtype()), "gloo: ", what,
          ": needs f32, f64, bf16, f16 or i64, got ", t.dtype());
    CHECK(t.dtype() != DType::i64 || reduction == Reduction::sum, "gloo: ", what,
          ": i64 has no mean; take the sum");
  }
  void check_part(const Tensor& mine, const Tensor& all, const std::string& what) const {
    check(mine, Reduction::sum, what);
    check(all, Reduction::sum, what);
    CHECK(mine.dtype() == all.dtype() && mine.numel() * world() == all.numel(), "gloo: ", what,
          ": ", all.numel(), " ", all.dtype(), " are not ", world(), " times ", mine.numel(), " ",
          mine.dtype());
  }

  WorkPtr start(const std::string& op, const Tensor& t, const std::string& what, Run run) {
    if (!t.numel()) run = [](const Context&, uint32_t, Timeout) {};
    return start({.op = op, .elements = t.numel(), .dtype = t.dtype(), .what = what, .step = step},
                 std::move(run));
  }
  WorkPtr start(const Collective& collective, Run run) {
    return std::make_unique<GlooWork>(engine_, engine_->start({collective, std::move(run)}));
  }

  const Ranks ranks_;
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
static const AddEntry<MakeGroup> entry("gloo", "tensors on the CPU, over TCP", gloo_group);

}  // namespace bellows
