// gloo: collectives between CPUs: through memory that the ranks of one machine share, else over TCP
// by the Gloo library. Tensors of a GPU are copied through pinned memory.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/scatter.h>
#include <algorithm>
#include "core/config/visitor.h"
#include "core/device/graph.h"
#include "core/device/start_thread.h"
#include "dist/groups/gloo_engine.h"

namespace bellows {

namespace {
struct GlooOptions {
  bool shared_memory = true;
};
void visit(Visitor& v, GlooOptions& o) {
  v("shared_memory", o.shared_memory, "values of ranks on one machine do not travel over TCP");
}

using Chunks = SharedMemory::Chunks;
using Read = SharedMemory::Read;

// With two ranks the mean is halved during the addition, with more it is divided at the end. Both
// give the same bits.
bool is_pair_mean(Reduction reduction, int world) {
  return reduction == Reduction::mean && world == 2;
}

// ---- arithmetic: computed in f32 if elements have 16 bits, and rounded once; without OpenMP

template <class T> void add_scaled(T* to, const T* a, const T* b, size_t n, Acc<T> factor) {
  for (size_t i = 0; i < n; ++i) to[i] = T((Acc<T>(a[i]) + Acc<T>(b[i])) * factor);
}

// to[i] = (a[i] + b[i]) * factor; `to` may be a or b. For i64 the factor is 1.
void add_scaled(DType dtype, void* to, const void* a, const void* b, size_t n, double factor) {
  if (dtype == DType::i64) {
    const auto *x = static_cast<const int64_t*>(a), *y = static_cast<const int64_t*>(b);
    for (size_t i = 0; i < n; ++i) static_cast<int64_t*>(to)[i] = x[i] + y[i];
    return;
  }
  visit_stored(dtype, [&]<class T>(T) {
    add_scaled(static_cast<T*>(to), static_cast<const T*>(a), static_cast<const T*>(b), n,
               Acc<T>(factor));
  });
}

// to[i] = to[i] / divisor; not for i64.
void divide(DType dtype, void* to, size_t n, double divisor) {
  visit_stored(dtype, [&]<class T>(T) {
    T* const values = static_cast<T*>(to);
    for (size_t i = 0; i < n; ++i) values[i] = T(Acc<T>(values[i]) / Acc<T>(divisor));
  });
}

// ---- over TCP

// values = sum or mean of `values` over the ranks, n of each.
void ring_all_reduce(const GlooCall& call, DType dtype, size_t n, void* values,
                     Reduction reduction) {
  const int world = call.context->size;
  const bool pair_mean = is_pair_mean(reduction, world);
  auto options = call.options<gloo::AllreduceOptions>();
  visit_dtype(dtype, [&]<class T>(T) { options.setOutput(static_cast<T*>(values), n); });
  options.setReduceFunction([=](void* c, const void* a, const void* b, size_t count) {
    add_scaled(dtype, c, a, b, count, pair_mean ? 0.5 : 1);
  });
  gloo::allreduce(options);
  if (reduction == Reduction::mean && !pair_mean) divide(dtype, values, n, world);
}

// ---- through shared memory

// to = sum or mean of the chunks, added in the order of the ranks.
Read reduce_to(std::byte* to, DType dtype, Reduction reduction) {
  return [=](size_t offset, size_t bytes, const Chunks& chunks) {
    const size_t world = chunks.size(), n = bytes / size_of(dtype);
    const bool pair_mean = is_pair_mean(reduction, int(world));
    add_scaled(dtype, to + offset, chunks[0], chunks[1], n, pair_mean ? 0.5 : 1);
    for (size_t r = 2; r < world; ++r) add_scaled(dtype, to + offset, to + offset, chunks[r], n, 1);
    if (reduction == Reduction::mean && !pair_mean) divide(dtype, to + offset, n, double(world));
  };
}
Read copy_to(std::byte* to, int from_rank) {
  return [=](size_t offset, size_t bytes, const Chunks& chunks) {
    std::copy_n(chunks[from_rank], bytes, to + offset);
  };
}
// The values of all ranks, `each` bytes long, in the order of the ranks.
Read collect_to(std::byte* to, size_t each) {
  return [=](size_t offset, size_t bytes, const Chunks& chunks) {
    for (size_t r = 0; r < chunks.size(); ++r)
      std::copy_n(chunks[r], bytes, to + r * each + offset);
  };
}
// Only the part of the message from `begin` to `end`.
Read part_of(size_t begin, size_t end, const Read& read) {
  return [=](size_t offset, size_t bytes, Chunks chunks) {
    const size_t from = std::max(offset, begin), to = std::min(offset + bytes, end);
    if (from >= to) return;
    for (const std::byte*& chunk : chunks) chunk += from - offset;
    read(from - begin, to - from, chunks);
  };
}
Read nothing() {
  return [](size_t, size_t, const Chunks&) {};
}
SharedMemory::Message message(const Tensor& t, bool offered, const Read& read) {
  return {.mine = offered ? t.bytes() : nullptr, .bytes = t.nbytes(), .read = read};
}

class Gloo : public ProcessGroup {
 public:
  // Returns once all ranks are connected.
  Gloo(const GlooOptions& options, const GroupContext& context)
      : Gloo(context, std::make_shared<GlooEngine>(context, options.shared_memory)) {
    // If the second thread cannot start, the destructor ends the first one.
    threads_.push_back(start_thread("gloo", [engine = engine_] { engine->run_all(); }));
    threads_.push_back(start_thread("gloo watch", [engine = engine_] { engine->watch(); }));
  }
  ~Gloo() override {
    const bool ended = engine_->stop();
    for (std::thread& thread : threads_) ended ? thread.join() : thread.detach();
  }

  int rank() const override { return ranks_.rank; }
  int world() const override { return ranks_.world; }
  std::string backend() const override { return "gloo"; }
  std::string path() const override {
    return engine_->shares_memory() ? "gloo, shared memory" : "gloo";
  }

  Work all_reduce(const Tensor& t, Reduction reduction, const std::string& what) override {
    check_collective(*this, device_, t, reduction, what);
    t.raise_version();
    return start(
        cat("all_reduce (", name_of(reduction), ")"), {{t, true, true}}, what,
        [=, dtype = t.dtype(), n = t.numel()](const GlooCall& call, const Tensors& host) {
          ring_all_reduce(call, dtype, n, host[0].bytes(), reduction);
        },
        [&](const Tensors& host) {
          return message(host[0], true, reduce_to(host[0].bytes(), t.dtype(), reduction));
        });
  }

  Work broadcast(const Tensor& t, int root, const std::string& what) override {
    check_collective(*this, device_, t, Reduction::sum, what);
    t.raise_version();
    return start(
        cat("broadcast (root ", root, ")"), {{t, rank() == root, rank() != root}}, what,
        [=](const GlooCall& call, const Tensors& host) {
          auto options = call.options<gloo::BroadcastOptions>();
          options.setRoot(root);
          options.setOutput(host[0].bytes(), host[0].nbytes());
          gloo::broadcast(options);
        },
        [=, here = rank() == root](const Tensors& host) {
          return message(host[0], here, here ? nothing() : copy_to(host[0].bytes(), root));
        });
  }

  Work all_gather(const Tensor& mine, const Tensor& all, const std::string& what) override {
    check_collective(*this, device_, mine, all, what);
    all.raise_version();
    return start(
        "all_gather", {{mine, true, false}, {all, false, true}}, what,
        [](const GlooCall& call, const Tensors& host) {
          auto options = call.options<gloo::AllgatherOptions>();
          options.setInput(host[0].bytes(), host[0].nbytes());
          options.setOutput(host[1].bytes(), host[1].nbytes());
          gloo::allgather(options);
        },
        [](const Tensors& host) {
          return message(host[0], true, collect_to(host[1].bytes(), host[0].nbytes()));
        });
  }

  void gather(const Tensor& mine, const Tensor& all, int root, const std::string& what) override {
    const bool here = rank() == root;
    check_root(mine, all, here, what);
    std::vector<StagedPart> parts = {{mine, true, false}};
    if (here) parts.push_back({all, false, true});
    start(
        cat("gather (root ", root, ")"), parts, what,
        [=](const GlooCall& call, const Tensors& host) {
          auto options = call.options<gloo::GatherOptions>();
          options.setRoot(root);
          options.setInput(host[0].bytes(), host[0].nbytes());
          if (here) options.setOutput(host[1].bytes(), host[1].nbytes());
          gloo::gather(options);
        },
        [=](const Tensors& host) {
          return message(host[0], true,
                         here ? collect_to(host[1].bytes(), host[0].nbytes()) : nothing());
        })
        .wait();
    if (here) all.raise_version();
  }

  void scatter(const Tensor& all, const Tensor& mine, int root, const std::string& what) override {
    const bool here = rank() == root;
    check_root(mine, all, here, what);
    std::vector<StagedPart> parts = {{mine, false, true}};
    if (here) parts.push_back({all, true, false});
    start(
        cat("scatter (root ", root, ")"), parts, what,
        [=](const GlooCall& call, const Tensors& host) {
          std::vector<std::byte*> shares;
          for (int r = 0; here && r < call.context->size; ++r)
            shares.push_back(host[1].bytes() + r * host[0].nbytes());
          auto options = call.options<gloo::ScatterOptions>();
          options.setRoot(root);
          if (here) options.setInputs(shares, host[0].nbytes());
          options.setOutput(host[0].bytes(), host[0].nbytes());
          gloo::scatter(options);
        },
        [=, this](const Tensors& host) {
          const size_t bytes = host[0].nbytes();
          return SharedMemory::Message{.mine = here ? host[1].bytes() : nullptr,
                                       .bytes = world() * bytes,
                                       .read = own_part(bytes, copy_to(host[0].bytes(), root))};
        })
        .wait();
    mine.raise_version();
  }

  void barrier(const std::string& what) override {
    const auto run = [](const GlooCall& call) {
      auto options = call.options<gloo::BarrierOptions>();
      gloo::barrier(options);
    };
    engine_->wait(engine_->start({{.op = "barrier", .what = what, .step = step}, run}));
  }

  std::string flight_report() const override { return engine_->report(); }

 private:
  Gloo(const GroupContext& context, std::shared_ptr<GlooEngine> engine)
      : ranks_(context.ranks),
        device_(context.device),
        staging_(device_ == Device::cpu ? nullptr : std::make_shared<Staging>()),
        engine_(std::move(engine)) {}

  using Run = std::function<void(const GlooCall&, const Tensors& host)>;
  using Share = std::function<SharedMemory::Message(const Tensors& host)>;

  void leave(const std::string& cause) override { engine_->abort(cause); }

  // The part of this rank, if each has `bytes` of the message.
  Read own_part(size_t bytes, const Read& read) const {
    return part_of(rank() * bytes, (rank() + 1) * bytes, read);
  }

  // Only the root of a gather or scatter has all values.
  void check_root(const Tensor& mine, const Tensor& all, bool here, const std::string& what) const {
    if (here)
      check_collective(*this, device_, mine, all, what);
    else
      check_collective(*this, device_, mine, Reduction::sum, what);
  }

  // The first part is the tensor that reports describe. `run` goes over TCP, `share` through shared
  // memory.
  Work start(const std::string& op, const std::vector<StagedPart>& parts, const std::string& what,
             const Run& run, const Share& share) {
    CHECK(!staging_ || !capturing(), "gloo: ", what,
          ": runs on the host, so no graph can capture "
          "it; write  toggles.cuda_graph: off");
    const Tensor& t = parts[0].tensor;
    const auto copies = staging_ ? std::make_shared<StagedCopies>(staging_, parts) : nullptr;
    Tensors host;
    for (const StagedPart& part : parts) host.push_back(part.tensor);
    if (copies) host = copies->host();
    const auto over_tcp = [=](const GlooCall& call) {
      if (host[0].numel()) run(call, host);
    };
    const Collective collective{
        .op = op, .elements = t.numel(), .dtype = t.dtype(), .what = what, .step = step};
    const int64_t sequence = engine_->start({collective, over_tcp, share(host), copies});
    return {[=, engine = engine_] {
      engine->wait(sequence);
      if (copies) copies->hold();
    }};
  }

  const Ranks ranks_;
  const Device device_;                     // where tensors are
  const std::shared_ptr<Staging> staging_;  // null on the CPU
  const std::shared_ptr<GlooEngine> engine_;
  std::vector<std::thread> threads_;
};
}  // namespace

static std::unique_ptr<ProcessGroup> gloo_group(const GlooOptions& options,
                                                const GroupContext& context) {
  CHECK(context.ranks.world > 1 && context.store,
        "dist.backend: gloo, but this process is alone; write  dist.backend: auto");
  auto group = std::make_unique<Gloo>(options, context);
  group->barrier("start");
  return group;
}
static const AddEntry<MakeGroup> gloo_entry(
    "gloo", "tensors on the CPU or, through pinned memory, on a GPU; over TCP between machines",
    gloo_group);

}  // namespace bellows
