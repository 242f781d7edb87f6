#include "dist/process_group.h"
#include <algorithm>
#include "core/config/hint.h"

namespace bellows {

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
