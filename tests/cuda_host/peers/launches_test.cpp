// The launches of a captured step, in order, against lists in this folder: a launch that comes or
// goes shows as a diff. To write the lists again:
//   BELLOWS_WRITE_LAUNCHES=1 build/tests/cuda_host/peers_on_cuda_host --gtest_filter='*Launches*'
#include <gtest/gtest.h>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include "tests/cuda_host/recorded_step.h"
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

void expect_listed(const char* name, const Plan& plan) {
  NoiseStep step(plan);
  std::string found;
  for (const cuda_host::Recorded& work : cuda_host::recorded_step(step, false))
    found += line_of(work);
  const std::string file = cat(source_dir(), "/tests/cuda_host/peers/", name, ".txt");
  if (std::getenv("BELLOWS_WRITE_LAUNCHES")) std::ofstream(file) << found;
  std::ostringstream listed;
  listed << std::ifstream(file).rdbuf();
  EXPECT_EQ(found, listed.str()) << "launches of " << name << "; the first comment of this file "
                                 << "says how to write the list again";
}

}  // namespace

TEST(LaunchesOnDevice, OfLeNetAreListed) {
  expect_listed("lenet_f32", cuda_host::plan_of("lenet", 64, 28, {"toggles.amp=off"}));
}
TEST(LaunchesOnDevice, OfResNet18AreListed) {
  expect_listed("resnet18_bf16",
                cuda_host::plan_of("resnet18", 2, 16, {"model.width=8", "toggles.amp=bf16"}));
}
