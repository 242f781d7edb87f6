// Records the work of the device in a captured training step, all optimizations on.
#pragma once
#include "core/base/check.h"
#include "peers/step/step.h"
#include "tests/cuda_host/cuda_host.h"

namespace cuda_host {

// Records the replay of a step that was captured after its warm-up. `words` follow "toggles=all".
// Nothing is searched: this device's times say nothing about a GPU's.
inline std::vector<Recorded> recorded_step(bellows::NoiseStep& step, bool bytes) {
  const bellows::Stream stream = bellows::current_stream(step.device());
  for (int i = 0; i < 4; ++i) step();
  bellows::synchronize(stream);
  const int64_t replays = counters().graph_launches;
  Recording recording(bytes);
  step();
  bellows::synchronize(stream);
  INVARIANT(counters().graph_launches == replays + 1, "the step was not a replay of its graph");
  return recording.work;
}

inline bellows::Plan plan_of(const std::string& model, int64_t batch, int64_t image,
                             std::vector<std::string> words) {
  words.insert(words.begin(), {"toggles=all", "toggles.kernel_autotune=heuristic"});
  return bellows::config_of({.model = model,
                             .device = "cuda",
                             .batch = batch,
                             .image = image,
                             .words = std::move(words)})
      .plan;
}

}  // namespace cuda_host
