// Makes residual blocks recompute their activations in backward (autograd/recompute.h). Up to n
// adjacent blocks form one segment, which keeps only its input.
#include "autograd/recompute.h"
#include "models/layers/residual.h"
#include "models/module/rewrite.h"

namespace bellows {

namespace {
class Recomputed : public Sequential {
 public:
  explicit Recomputed(std::span<Child> blocks) {
    for (Child& block : blocks) add(block.name, std::move(block.module));
  }
  const char* kind() const override { return "recompute"; }

 protected:
  Tensor forward(const Tensor& x) override {
    if (leaves_.empty())
      for (const NamedTensor& p : parameters()) leaves_.push_back(p.tensor);
    return recompute([this](const Tensor& in) { return Sequential::forward(in); }, x, leaves_);
  }

 private:
  std::vector<Tensor> leaves_;
};
}  // namespace

static std::vector<std::string> recompute_blocks(Module& root, int64_t every) {
  std::vector<std::string> report;
  each_sequential(root, [&](const std::string&, Sequential& sequential) {
    std::vector<Child>& list = sequential.children();
    for (auto at = list.begin(); at != list.end(); ++at) {
      auto end = at;
      while (end != list.end() && end - at < every && is<ResidualBlock>(*end)) ++end;
      if (end == at) continue;
      *at = {"", std::make_unique<Recomputed>(std::span(at, end))};
      report.push_back(cat("recomputed: residual blocks, ", end - at, " together"));
      list.erase(at + 1, end);
    }
  });
  return report;
}

static const AddRewrite recompute_rewrite(
    {.name = "recompute",
     .help = "n: of n adjacent residual blocks only the first one's input is kept; they run again "
             "in backward",
     .max = 1024,
     .stage = Rewrite::group,
     .apply = recompute_blocks});

}  // namespace bellows
