#include "plan/plan.h"
#include "core/base/utf8.h"
#include "core/config/visitor.h"

namespace bellows {

// ---- device

static const std::string kNumbered = "cuda:";

static constexpr const char* kNames[] = {"auto", "cpu", "cuda"};

std::string DeviceChoice::text() const {
  return gpu ? kNumbered + std::to_string(*gpu) : kNames[kind];
}

static bool read(const std::string& text, DeviceChoice& choice) {
  for (const auto kind : {DeviceChoice::automatic, DeviceChoice::cpu, DeviceChoice::cuda})
    if (text == kNames[kind]) return choice = kind, true;
  int gpu = 0;
  if (!text.starts_with(kNumbered)) return false;
  if (!make_option(gpu, {.min = 0}).read(text.substr(kNumbered.size()))) return false;
  choice = {DeviceChoice::cuda, gpu};
  return true;
}

Option make_option(DeviceChoice& choice, Bounds) {
  return {choice.text(), "auto or cpu or cuda or cuda:N",
          [&choice](const std::string& text) { return read(text, choice); }};
}

// ---- options

void visit(Visitor& v, DataOptions& o) {
  v.choice("name", o.dataset, "data set").also({"dataset"});
  visit_transforms(v, o.transforms);
  visit(v, o.loader);
}

void visit(Visitor& v, ModelOptions& o) {
  v.choice("name", o.model, "model").fixed(kOtherModel).also({"arch", "architecture", "network"});
  visit(v, o.rewrites);
  v("vectorized", o.vectorized, "lesson layers run on whole tensors instead of in a loop");
  v("channels_last", o.channels_last, "weights of convolutions lie in memory as OHWI, not OIHW");
  v("sync_bn", o.sync_bn, "batch norms train with the statistics of all ranks' batches");
}

// True if `text` can name a folder. 200 bytes leave room for a numeric suffix.
static bool is_name(const std::string& text) {
  const bool dots = text == "." || text == "..";
  const bool short_enough = !text.empty() && text.size() <= 200;
  return short_enough && !dots && text.find('/') == std::string::npos && printable(text) == text;
}

void visit(Visitor& v, Plan& plan) {
  v("name", plan.name, "name of the run; its folder is runs/<name>")
      .resumable()
      .also({"exp_name", "run_name"});
  v.require(
      "name", is_name(plan.name),
      "must be one component of a path, of 1 to 200 bytes: no '/', no control characters, not . "
      "or ..; --run-dir puts a run elsewhere");
  v("seed", plan.seed, "every random number is a function of it")
      .also({"manual_seed", "random_seed"});
  v("device", plan.device, "auto: the first GPU if there is one; cuda:N: GPU N, from 0")
      .resumable();
  v("deterministic", plan.kernels.deterministic, {"off", "on"},
    "only kernels with the same bits for any number of threads");
  v.group("model", plan.model);
  v.group("data", plan.data);
  v.group("loss", plan.loss);
  v.group("amp", plan.amp);
  v.group("optimizer", plan.optimizer);
  v.group("schedule", plan.schedule).resumable();
  v.group("train", plan.train).resumable();
  v.group("eval", plan.eval).resumable();
  v.group("log", plan.log).resumable();
  v.group("ckpt", plan.ckpt).resumable();
  v.group("target", plan.target).resumable();
  v.group("kernels", plan.kernels).resumable();
  v("cpu.blas", plan.kernels.blas, {"onednn", "openblas", "eigen"},
    "library of f32 products on the CPU (linear, matmul, einsum); onednn: Eigen without the "
    "toggle vendor_kernels; openblas: from the package libopenblas0-pthread")
      .resumable();
  v.group("allocator", plan.allocator).resumable();
  v.group("threads", plan.threads).resumable();
  v.group("dist", plan.dist).resumable();
  v.group("sim", plan.sim).resumable();
  v.group("profile", plan.profile).resumable();
  v.group("debug", plan.debug).resumable();
}

}  // namespace bellows
