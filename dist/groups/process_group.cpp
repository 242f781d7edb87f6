#include "dist/groups/process_group.h"
#include <fstream>
#include "core/device/device_info.h"
#include "core/tensor/copy.h"

namespace bellows {

void broadcast_from_root(ProcessGroup& group, const NamedTensors& tensors) {
  std::vector<Work> works;
  for (const auto& [name, t] : tensors) {
    works.push_back(group.broadcast(flat(t.detach()), 0, name));
    t.raise_version();
  }
  for (const Work& work : works) work.wait();
}

const char* name_of(Reduction reduction) { return reduction == Reduction::sum ? "sum" : "mean"; }

void check_collective(const ProcessGroup& group, Device device, const Tensor& t,
                      Reduction reduction, const std::string& what) {
  const std::string name = group.backend();
  CHECK(t.device() == device, name, ": ", what, ": the tensor is on ", t.device(),
        ", and this group takes tensors on ", device, "; write  dist.backend: auto");
  CHECK(t.is_dense(), name, ": ", what, ": needs a dense tensor, got strides ", t.strides());
  CHECK(t.dtype() == DType::i64 || is_float(t.dtype()), name, ": ", what,
        ": needs f32, f64, bf16, f16 or i64, got ", t.dtype());
  CHECK(t.dtype() != DType::i64 || reduction == Reduction::sum, name, ": ", what,
        ": i64 has no mean; take the sum");
}

void check_collective(const ProcessGroup& group, Device device, const Tensor& mine,
                      const Tensor& all, const std::string& what) {
  check_collective(group, device, mine, Reduction::sum, what);
  check_collective(group, device, all, Reduction::sum, what);
  CHECK(mine.dtype() == all.dtype() && mine.numel() * group.world() == all.numel(), group.backend(),
        ": ", what, ": ", all.numel(), " ", all.dtype(), " are not ", group.world(), " times ",
        mine.numel(), " ", mine.dtype());
}

void ProcessGroup::abort(const std::string& why) noexcept {
  try {
    leave(cat("rank ", rank(), " left", step ? cat(" in step ", step) : "", ": ", why));
  } catch (...) {  // out of memory: the others see closed connections, or run into their timeouts
  }
}

// For backends without gather and scatter: every rank receives all parts.
void ProcessGroup::gather(const Tensor& mine, const Tensor& all, int root,
                          const std::string& what) {
  const Shape shape{world() * mine.numel()};
  all_gather(mine, rank() == root ? all : Tensor(shape, mine.dtype(), mine.device()), what).wait();
}

void ProcessGroup::scatter(const Tensor& all, const Tensor& mine, int root,
                           const std::string& what) {
  const int64_t n = mine.numel();
  const Tensor parts = rank() == root ? all : Tensor({world() * n}, mine.dtype(), mine.device());
  broadcast(parts, root, what).wait();
  copy_into(mine, parts.view({n}, {1}, parts.offset() + rank() * n));
}

std::string GroupContext::new_prefix(const std::string& backend) const {
  if (!store) return "";
  return cat(backend, "/", store->add(cat(backend, "/groups/", ranks.rank), 1), "/");
}

// Identifies the GPU of this process among those of all machines.
static std::string gpu_identity() {
  const CudaReport report = cuda_report();
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return cat(boot, " ", report.gpus.empty() ? cat("gpu ", chosen_gpu()) : report.gpu().pci);
}

// Returns "nccl" if every rank has a GPU of its own, else "gloo": NCCL refuses ranks that share
// one. All ranks return the same.
static std::string gpu_backend(const GroupContext& context) {
  Store& store = *context.store;
  const std::string prefix = context.new_prefix("gpus");
  if (store.add(prefix + gpu_identity(), 1) == 2) store.set(prefix + "shared", "");
  if (store.add(prefix + "ranks", 1) == context.ranks.world)
    store.set(prefix + "backend", store.wait(prefix + "shared", Timeout(0)) ? "gloo" : "nccl");
  return store.get(prefix + "backend", context.timeout());
}

// auto: single in a world of one; nccl for tensors on GPUs if each rank has its own; else gloo.
static std::unique_ptr<ProcessGroup> automatic(const NoOptions&, const GroupContext& context) {
  const std::string name = context.ranks.world == 1         ? "single"
                           : context.device == Device::cuda ? gpu_backend(context)
                                                            : "gloo";
  return Choice<MakeGroup>(name).make(context);
}
static const AddEntry<MakeGroup> process_group_entry(
    "auto", "single, gloo (CPU, or ranks on one GPU) or nccl", automatic);

}  // namespace bellows
