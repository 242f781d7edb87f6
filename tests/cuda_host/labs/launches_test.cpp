// The launches of a captured step against lists in this folder, those of LeNet in order and those
// of ResNet-18 as counts: a launch that comes or goes shows as a diff. To write the lists again:
//   BELLOWS_WRITE_LAUNCHES=1 build/tests/cuda_host/labs_on_cuda_host --gtest_filter='*Launches*'
#include <gtest/gtest.h>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include "core/base/check.h"
#include "core/config/config.h"
#include "labs/bench/step.h"
#include "plan/toggle.h"
#include "tests/cuda_host/cuda_host.h"
#include "tests/moved.h"
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

// Returns a line for each piece of work in the replay of a step with all optimizations that was
// captured after its warm-up. Nothing is searched: this device's times say nothing about a GPU's.
std::vector<std::string> launches_of(std::vector<std::string> words) {
  words.insert(words.begin(),
               {"device=cuda", "toggles=all", "toggles.kernel_autotune=heuristic",
                "optimizer={name: sgd, lr: 0.01, momentum: 0.9, weight_decay: 1e-4}"});
  RepeatedStep step(make_config(read_sources("", words)).plan);
  const Stream stream = current_stream(step.device());
  for (int i = 0; i < 6; ++i) step();
  synchronize(stream);
  const Moved replays("graph.replays");
  const cuda_host::Recording recording;
  step();
  synchronize(stream);
  INVARIANT(replays == 1, "the step was not a replay of its graph");
  std::vector<std::string> lines;
  for (const cuda_host::Recorded& work : recording.work) lines.push_back(line_of(work));
  return lines;
}

void expect_listed(const char* name, const std::string& found) {
  const std::string file = cat(source_dir(), "/tests/cuda_host/labs/", name, ".txt");
  if (std::getenv("BELLOWS_WRITE_LAUNCHES")) std::ofstream(file) << found;
  std::ostringstream listed;
  listed << std::ifstream(file).rdbuf();
  EXPECT_EQ(found, listed.str()) << "launches of " << name << "; the first comment of this file "
                                 << "says how to write the list again";
}

}  // namespace

TEST(LaunchesOnDevice, OfLeNetAreListed) {
  std::string all;
  for (const std::string& line :
       launches_of({"data={name: digits, train_size: 64, batch_size: 64}", "toggles.amp=off"}))
    all += line;
  expect_listed("lenet_f32", all);
}
TEST(LaunchesOnDevice, OfResNet18AreListed) {
  std::map<std::string, int> counts;
  for (const std::string& line :
       launches_of({"model={name: resnet18, width: 8}",
                    "data={name: shapes, train_size: 2, batch_size: 2}", "toggles.amp=bf16"}))
    ++counts[line];
  std::string all;
  for (const auto& [line, count] : counts) all += cat(count, " of ", line);
  expect_listed("resnet18_bf16", all);
}
