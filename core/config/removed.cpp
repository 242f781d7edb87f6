#include "core/config/removed.h"
#include <map>
#include "core/base/check.h"

namespace bellows {

std::string removal(const std::string& name) {
  constexpr const char *kNoGain = "no measurement showed a gain",
                       *kNoGpu = "no GPU has run it; docs/gpu.md names the commit that has it",
                       *kPack = "`trainer pack` writes the shards once, for  data: {name: packed}",
                       *kBench = "`trainer bench` measures the machine",
                       *kRecipe = "it served one recipe of CIFAR-10 only";
  static const std::map<std::string, const char*> reasons = {
      {"adaptive_threads", kNoGain},
      {"airbench", kRecipe},
      {"allocator.reserve_mb", "`toggles: {preallocate: on}` finds how much to reserve"},
      {"background_loader", kNoGain},
      {"data.cache_mb", kPack},
      {"data.order", kPack},
      {"data.page_kb", kPack},
      {"data.window", kPack},
      {"early_launch", kNoGpu},
      {"eval.tta", kRecipe},
      {"fused_conv_bn", "it served evaluation only; `trainer export --fold-bn` folds the norms"},
      {"fused_conv_norm", kNoGpu},
      {"fused_linear_tail", kNoGpu},
      {"huge_pages", kNoGain},
      {"kernels.search_compiled", kNoGpu},
      {"muon", kRecipe},
      {"overlap_wgrad", kNoGpu},
      {"packed_dataset", kPack},
      {"progressive_resize", kRecipe},
      {"train.dry_updates", kNoGain},
      {"trainer bench op --json", "nothing read it"},
      {"trainer doctor --bandwidths", kBench},
      {"trainer doctor --folder", kBench},
      {"trainer plan --classes", kNoGpu},
      {"trainer plan --gpu", kNoGpu},
      {"trainer plan --sample", kNoGpu},
      {"whitening", kRecipe},
  };
  const auto found = reasons.find(name);
  return found == reasons.end() ? "" : cat("removed in 0.2, because ", found->second);
}

}  // namespace bellows
