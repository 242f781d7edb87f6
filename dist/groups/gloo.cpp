// gloo: collectives between CPUs: through memory that the ranks of one machine share, else over TCP
// by the Gloo library. Tensors of a GPU are copied to the host and back.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/scatter.h>
#include <algorithm>
#include "core/base/trace.h"
#include "core/config/visitor.h"
#include "core/device/graph.h"
#include "core/device/sync_guard.h"
#include "core/tensor/copy.h"
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

// t = sum or mean of `t` over the ranks.
void ring_all_reduce(const GlooCall& call, const Tensor& t, Reduction reduction) {
  const int world = call.context->size;
  const DType dtype = t.dtype();
  const auto n = size_t(t.numel());
  const bool pair_mean = is_pair_mean(reduction, world);
  auto options = call.options<gloo::AllreduceOptions>();
  visit_dtype(dtype, [&]<class T>(T) { options.setOutput(t.ptr<T>(), n); });
  options.setReduceFunction([=](void* c, const void* a, const void* b, size_t count) {
    add_scaled(dtype, c, a, b, count, pair_mean ? 0.5 : 1);
  });
  gloo::allreduce(options);
  if (reduction == Reduction::mean && !pair_mean) divide(dtype, t.bytes(), n, world);
}

// ---- through shared memory

// t = sum or mean of the chunks, added in the order of the ranks.
Read reduce_to(const Tensor& t, Reduction reduction) {
  return [=, to = t.bytes(), dtype = t.dtype()](size_t offset, size_t bytes, const Chunks& chunks) {
    const size_t world = chunks.size(), n = bytes / size_of(dtype);
    const bool pair_mean = is_pair_mean(reduction, int(world));
    add_scaled(dtype, to + offset, chunks[0], chunks[1], n, pair_mean ? 0.5 : 1);
    for (size_t r = 2; r < world; ++r) add_scaled(dtype, to + offset, to + offset, chunks[r], n, 1);
    if (reduction == Reduction::mean && !pair_mean) divide(dtype, to + offset, n, double(world));
  };
}
// Copies the values of one rank to `t`, if that is defined.
Read copy_to(const Tensor& t, int from_rank) {
  return [=](size_t offset, size_t bytes, const Chunks& chunks) {
    if (t.defined()) std::copy_n(chunks[from_rank], bytes, t.bytes() + offset);
  };
}
// Collects the values of all ranks, `each` bytes long, in the order of the ranks.
Read collect_to(const Tensor& t, size_t each) {
  return [=](size_t offset, size_t bytes, const Chunks& chunks) {
    for (size_t r = 0; t.defined() && r < chunks.size(); ++r)
      std::copy_n(chunks[r], bytes, t.bytes() + r * each + offset);
  };
}
// Reads only the part of the message from `begin` to `end`.
Read part_of(size_t begin, size_t end, const Read& read) {
  return [=](size_t offset, size_t bytes, Chunks chunks) {
    const size_t from = std::max(offset, begin), to = std::min(offset + bytes, end);
    if (from >= to) return;
    for (const std::byte*& chunk : chunks) chunk += from - offset;
    read(from - begin, to - from, chunks);
  };
}

using OverTcp = std::function<void(const GlooCall&)>;

// A rank's values in host memory: the rank offers `in` and receives `out`; `result` is the tensor
// that the caller passed. Undefined tensors do not take part.
struct Host {
  Tensor in, out, result;
};

class Gloo : public ProcessGroup {
 public:
  // Returns once all ranks are connected.
  Gloo(const GlooOptions& options, const GroupContext& context)
      : ranks_(context.ranks), device_(context.device), engine_(context, options.shared_memory) {}

  int rank() const override { return ranks_.rank; }
  int world() const override { return ranks_.world; }
  std::string backend() const override { return "gloo"; }
  std::string path() const override {
    return engine_.shares_memory() ? "gloo, shared memory" : "gloo";
  }

  Work all_reduce(const Tensor& t, Reduction reduction, const std::string& what) override {
    check_collective(*this, device_, t, reduction, what);
    const Host host = on_host(what, t, t);
    const auto tcp = [=](const GlooCall& call) { ring_all_reduce(call, host.out, reduction); };
    return start(cat("all_reduce (", name_of(reduction), ")"), t, what, host, tcp, t.nbytes(),
                 reduce_to(host.out, reduction));
  }

  Work broadcast(const Tensor& t, int root, const std::string& what) override {
    check_collective(*this, device_, t, Reduction::sum, what);
    const Host host = rank() == root ? on_host(what, t, {}) : on_host(what, {}, t);
    const auto tcp = [=](const GlooCall& call) {
      auto options = call.options<gloo::BroadcastOptions>();
      options.setRoot(root);
      const Tensor& values = host.in.defined() ? host.in : host.out;
      options.setOutput(values.bytes(), values.nbytes());
      gloo::broadcast(options);
    };
    return start(cat("broadcast (root ", root, ")"), t, what, host, tcp, t.nbytes(),
                 copy_to(host.out, root));
  }

  Work all_gather(const Tensor& mine, const Tensor& all, const std::string& what) override {
    check_collective(*this, device_, mine, all, what);
    const Host host = on_host(what, mine, all);
    const auto tcp = [=](const GlooCall& call) {
      auto options = call.options<gloo::AllgatherOptions>();
      options.setInput(host.in.bytes(), host.in.nbytes());
      options.setOutput(host.out.bytes(), host.out.nbytes());
      gloo::allgather(options);
    };
    return start("all_gather", mine, what, host, tcp, mine.nbytes(),
                 collect_to(host.out, mine.nbytes()));
  }

  void gather(const Tensor& mine, const Tensor& all, int root, const std::string& what) override {
    const Host host = on_host(what, mine, check_root(mine, all, root, what));
    const auto tcp = [=](const GlooCall& call) {
      auto options = call.options<gloo::GatherOptions>();
      options.setRoot(root);
      options.setInput(host.in.bytes(), host.in.nbytes());
      if (host.out.defined()) options.setOutput(host.out.bytes(), host.out.nbytes());
      gloo::gather(options);
    };
    start(cat("gather (root ", root, ")"), mine, what, host, tcp, mine.nbytes(),
          collect_to(host.out, mine.nbytes()))
        .wait();
  }

  void scatter(const Tensor& all, const Tensor& mine, int root, const std::string& what) override {
    const Host host = on_host(what, check_root(mine, all, root, what), mine);
    const size_t each = mine.nbytes(), own = rank() * each;
    const auto tcp = [=](const GlooCall& call) {
      std::vector<std::byte*> shares;
      for (int r = 0; host.in.defined() && r < call.context->size; ++r)
        shares.push_back(host.in.bytes() + r * each);
      auto options = call.options<gloo::ScatterOptions>();
      options.setRoot(root);
      if (host.in.defined()) options.setInputs(shares, each);
      options.setOutput(host.out.bytes(), each);
      gloo::scatter(options);
    };
    start(cat("scatter (root ", root, ")"), mine, what, host, tcp, world() * each,
          part_of(own, own + each, copy_to(host.out, root)))
        .wait();
  }

  void barrier(const std::string& what) override {
    const auto tcp = [](const GlooCall& call) {
      auto options = call.options<gloo::BarrierOptions>();
      gloo::barrier(options);
    };
    const SharedMemory::Message empty{.bytes = 1, .read = [](size_t, size_t, const Chunks&) {}};
    engine_.wait(engine_.start({{.op = "barrier", .what = what, .step = step}, tcp, empty}));
  }

  std::string flight_report() const override { return engine_.report(); }

 private:
  void leave(const std::string& cause) override { engine_.abort(cause); }

  // Checks the operands of a gather or scatter. Returns `all` on the root, else {}.
  Tensor check_root(const Tensor& mine, const Tensor& all, int root,
                    const std::string& what) const {
    if (rank() == root) return check_collective(*this, device_, mine, all, what), all;
    check_collective(*this, device_, mine, Reduction::sum, what);
    return {};
  }

  // Copies a GPU's values to the host now. The result is copied back when the caller waits for it.
  Host on_host(const std::string& what, const Tensor& in, const Tensor& out) const {
    if (device_ == Device::cpu) return {in, out, out};
    CHECK(!capturing(), "gloo: ", what,
          ": runs on the host, so no graph can capture it; write  "
          "toggles.cuda_graph: off");
    const SyncGuard expected(OnSync::ignore);
    Host host{{}, {}, out};
    if (in.defined()) host.in = to(Device::cpu, in);
    const bool in_place = in.defined() && out.defined() && in.bytes() == out.bytes();
    if (out.defined()) host.out = in_place ? host.in : Tensor(out.shape(), out.dtype());
    for (const Tensor& t : {in, out})
      if (t.defined()) trace::count<"dist.staged_bytes">(int64_t(t.nbytes()));
    return host;
  }

  // `t` describes the collective in reports. `bytes`: size of each rank's part in shared memory.
  Work start(const std::string& op, const Tensor& t, const std::string& what, const Host& host,
             const OverTcp& tcp, size_t bytes, const Read& read) {
    const auto over_tcp = [=, any = t.numel() > 0](const GlooCall& call) {
      if (any) tcp(call);
    };
    Collective collective{
        .op = op, .elements = t.numel(), .dtype = t.dtype(), .what = what, .step = step};
    const std::byte* const mine = host.in.defined() ? host.in.bytes() : nullptr;
    const int64_t sequence = engine_.start({std::move(collective), over_tcp, {mine, bytes, read}});
    if (host.result.defined()) host.result.raise_version();
    return {[=, this] {
      engine_.wait(sequence);
      if (device_ != Device::cpu && host.result.defined()) copy_into(host.result, host.out);
    }};
  }

  const Ranks ranks_;
  const Device device_;  // device of the tensors
  GlooEngine engine_;
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
    "gloo", "tensors on the CPU or, by copies to the host, on a GPU; over TCP between machines",
    gloo_group);

}  // namespace bellows
