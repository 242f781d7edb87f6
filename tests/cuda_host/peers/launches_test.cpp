// The launches of a captured step, in order, against lists in this folder: a launch that comes or
// goes shows as a diff. To write the lists again:
//   BELLOWS_WRITE_LAUNCHES=1 build/tests/cuda_host/peers_on_cuda_host --gtest_filter='*Launches*'
#include <gtest/gtest.h>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include "core/base/check.h"
#include "peers/step/step.h"
#include "tests/cuda_host/cuda_host.h"
#include "tests/place.h"

using namespace bellows;

namespace {

// "batch_norm_training  void statistics<float>(float const*, int) at x.cu:1" as
// "batch_norm_training: statistics<float>": no line numbers and no parameters, which change often.
std::string line_of(const cuda_host::Recorded& work) {
  std::string name = work.name;
  if (name.starts_with("kernel ")) {
    name = name.substr(7, name.rfind(" at ") - 7);
    int depth = 0;  // parameters begin at the last "(" outside of template arguments
    size_t end = name.size();
    for (size_t i = name.size(); i-- > 0 && end == name.size();) {
      if (name[i] == ')' || name[i] == '>') ++depth;
      if (name[i] == '<') --depth;
      if (name[i] == '(' && --depth == 0) end = i;
    }
    name.resize(end);
    if (name.starts_with("void ")) name.erase(0, 5);
    for (const std::string noise : {"bellows::", "(anonymous namespace)::"})
      for (size_t at; (at = name.find(noise)) != name.npos;) name.erase(at, noise.size());
  }
  return cat(work.kernel.empty() ? "no op" : work.kernel, ": ", name, "\n");
}

// Returns what the device does in the replay of a step with all optimizations that was captured
// after its warm-up. Nothing is searched: this device's times say nothing about a GPU's.
std::vector<cuda_host::Recorded> replay_of(StepRequest request) {
  request.device = "cuda";
  request.words.insert(request.words.begin(), {"toggles=all", "toggles.kernel_autotune=heuristic"});
  NoiseStep step(config_of(request).plan);
  const Stream stream = current_stream(step.device());
  for (int i = 0; i < 4; ++i) step();
  synchronize(stream);
  const int64_t replays = cuda_host::counters().graph_launches;
  const cuda_host::Recording recording;
  step();
  synchronize(stream);
  INVARIANT(cuda_host::counters().graph_launches == replays + 1,
            "the step was not a replay of its graph");
  return recording.work;
}

void expect_listed(const char* name, const StepRequest& request) {
  std::string found;
  for (const cuda_host::Recorded& work : replay_of(request)) found += line_of(work);
  const std::string file = cat(source_dir(), "/tests/cuda_host/peers/", name, ".txt");
  if (std::getenv("BELLOWS_WRITE_LAUNCHES")) std::ofstream(file) << found;
  std::ostringstream listed;
  listed << std::ifstream(file).rdbuf();
  EXPECT_EQ(found, listed.str()) << "launches of " << name << "; the first comment of this file "
                                 << "says how to write the list again";
}

}  // namespace

TEST(LaunchesOnDevice, OfLeNetAreListed) {
  expect_listed("lenet_f32",
                {.model = "lenet", .batch = 64, .image = 28, .words = {"toggles.amp=off"}});
}
TEST(LaunchesOnDevice, OfResNet18AreListed) {
  expect_listed("resnet18_bf16", {.model = "resnet18",
                                  .batch = 2,
                                  .image = 16,
                                  .words = {"model.width=8", "toggles.amp=bf16"}});
}
