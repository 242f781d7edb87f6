#include "core/config/config.h"
#include <algorithm>
#include "dist/rendezvous/rendezvous.h"
#include "peers/step/step.h"

namespace bellows {

// Options of a run without effect on a step: loading, evaluation, logging and so on.
static constexpr const char* kBeside[] = {"ckpt",         "data",         "eval",
                                          "log",          "profile",      "schedule",
                                          "target",       "train.epochs", "train.max_iters",
                                          "train.weights"};

static bool is_beside(const std::string& key) {
  return std::ranges::any_of(
      kBeside, [&](const std::string& part) { return key == part || key.starts_with(part + "."); });
}

// True if all options of the toggle are of that kind.
static bool is_beside(const Toggle& toggle) {
  return std::ranges::all_of(option_owners(), [&](const auto& option) {
    return option.second != &toggle || is_beside(option.first);
  });
}

static void refuse_beside(const Values& words) {
  for (const auto& [key, value] : words) {
    const Toggle* const toggle = key.starts_with("toggles.") ? find_toggle(key.substr(8)) : nullptr;
    CHECK(!(toggle ? is_beside(*toggle) : is_beside(key)), value.origin, ": ", key,
          " has no part in a step on a batch that is in memory; leave it out; trainer ab times "
          "whole runs");
  }
}

// Turns these toggles off, because a preset may have turned them on.
static Values toggles_beside() {
  Values off;
  for (const Toggle& toggle : toggles())
    if (is_beside(toggle)) off[cat("toggles.", toggle.name)] = {toggle.off(), "no part in a step"};
  return off;
}

// Same inputs as peers/torch/torch_step.py: shapes of MNIST, CIFAR-10 or ImageNet.
static std::string images_of(const StepRequest& r) {
  if (r.model == "lenet" || r.model.starts_with("mlp")) return "channels: 1, size: 28, classes: 10";
  return cat("channels: 3, size: ", r.image, ", classes: ", r.image <= 32 ? 10 : 1000);
}

Config config_of(const StepRequest& r) {
  const Values own =
      parse_overrides({"model=" + r.model, "device=" + r.device, cat("threads.threads=", r.threads),
                       "optimizer=sgd", "optimizer.lr=0.01", "optimizer.momentum=0.9",
                       "optimizer.weight_decay=1e-4",
                       cat("data={name: noise, samples: ", r.batch * this_rank({}).world,
                           ", batch_size: ", r.batch, ", ", images_of(r), "}")});
  const Values words = parse_overrides(r.words);
  refuse_beside(words);
  return make_config({own, words, toggles_beside()});
}

}  // namespace bellows
