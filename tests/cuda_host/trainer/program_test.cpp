// Device errors in the real program: one clear line and the documented exit code.
#include "tests/trainer/program.h"
#include <gmock/gmock.h>
#include <sstream>
#include "tests/place.h"

using namespace bellows;

namespace {

// The trainer linked with cuda_host, or one whose kernel writes past its output.
class ProgramOnDevice : public Program {
 protected:
  std::string program() const override { return BELLOWS_BINARY_DIR "/tests/cuda_host/" + name_; }
  // Drops the lines that cuda_host prints; the program itself must print exactly one.
  void expect_end(const Args& args, int code, const std::string& text) {
    const Ended ended = run(args);
    EXPECT_EQ(ended.code, code) << ended.err;
    std::istringstream lines(ended.err);
    std::string own;
    for (std::string line; std::getline(lines, line);)
      if (!line.starts_with("cuda_host: ")) own += line + "\n";
    EXPECT_THAT(own, testing::MatchesRegex("trainer: [^\n]*\n"));
    EXPECT_THAT(own, testing::HasSubstr(text));
  }
  std::string name_ = "trainer_on_stand_in";
};

}  // namespace

TEST_F(ProgramOnDevice, TrainsAndEndsWell) {
  const Ended ended = run(tiny({"device=cuda"}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, testing::HasSubstr("device: cuda\n"));
}

// cuda_host has two GPUs, and refuses work of a thread that is on another one than the process.
TEST_F(ProgramOnDevice, UsesTheChosenGpuInEveryThread) {
  const Ended ended =
      run(tiny({"device=cuda:1", "toggles={pin_memory: on, non_blocking: on, num_workers: 2}"}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, testing::HasSubstr("device: cuda:1\n"));
}

TEST_F(ProgramOnDevice, RefusesAGpuThatIsNotThere) {
  expect_end(tiny({"device=cuda:2"}), 2,
             "device: cuda:2, but the number of GPUs is 2, counted from cuda:0");
}

TEST_F(ProgramOnDevice, OutOfMemoryEndsItWithSix) {
  expect_end(tiny({"device=cuda", "model={name: mlp, hidden: [500000]}"}), 6,
             "layer 'fc1': out of cuda memory: asked for 1495.4 MiB");
}

TEST_F(ProgramOnDevice, AnIllegalAccessEndsItWithNineAndNamesTheOp) {
  name_ = "trainer_off_by_one";
  expect_end(tiny({"device=cuda", "model=levels_mlp",
                   "toggles={background_loader: off, caching_allocator: off, vectorized_ops: on}"}),
             9, "the last kernels were bucketize in module 'levels'");
}
