#include "dist/process_group.h"
#include <algorithm>
#include "core/config/hint.h"
#include "core/tensor/copy.h"

namespace bellows {

// For backends without these two: every rank receives everything.
void ProcessGroup::gather(const Tensor& mine, const Tensor& all, int root,
                          const std::string& what) {
  const Shape shape{world() * mine.numel()};
  all_gather(mine, rank() == root ? all : Tensor(shape, mine.dtype(), mine.device()), what)->wait();
}

void ProcessGroup::scatter(const Tensor& all, const Tensor& mine, int root,
                           const std::string& what) {
  const int64_t n = mine.numel();
  const Tensor parts = rank() == root ? all : Tensor({world() * n}, mine.dtype(), mine.device());
  broadcast(parts, root, what)->wait();
  copy_into(mine, parts.view({n}, {1}, parts.offset() + rank() * n));
}

// auto: single in a world of one, else nccl for tensors on a GPU and gloo for others.
static std::unique_ptr<ProcessGroup> automatic(const NoOptions&, const GroupContext& context) {
  const std::string name = context.ranks.world == 1         ? "single"
                           : context.device == Device::cuda ? "nccl"
                                                            : "gloo";
  const Names known = Choice<MakeGroup>::names();
  CHECK(std::ranges::count(known, name), "dist.backend: auto is ", name, " for ",
        context.ranks.world, " ranks on this device, and this build lacks it");
  return Choice<MakeGroup>(name).make(context);
}
static const AddEntry<MakeGroup> entry("auto", "single, gloo (CPU) or nccl (GPU), as ranks need",
                                       automatic);

}  // namespace bellows
