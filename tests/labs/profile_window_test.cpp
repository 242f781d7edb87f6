// Ranges that a profiler receives: the updates of the window, their phases, ops and modules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "core/device/device_info.h"
#include "tests/place.h"
#include "tests/trainer/program.h"
#include "tests/trainer/runs.h"
#include "trainer/session/windows.h"

using namespace bellows;
using testing::HasSubstr;

namespace {

// Replaces NVTX.
struct Seen {
  std::map<std::string, int64_t> ranges;  // count by name and path
  int64_t open = 0, started = 0, stopped = 0;
};
Seen seen;

class Window : public testing::Test {
 protected:
  Window() : before_(trace::marker) {
    seen = {};
    trace::marker = {[](const char* name, const std::string& path) {
                       ++seen.ranges[path.empty() ? name : cat(name, " ", path)], ++seen.open;
                     },
                     [] { --seen.open; }, [](bool on) { ++(on ? seen.started : seen.stopped); }};
  }
  ~Window() override { trace::marker = before_; }

  static Outcome train(const ProfileOptions& profile) {
    Plan plan;
    plan.data.loader.sampler.batch_size = 8;
    plan.train.max_iters = 6;
    plan.eval.every = plan.ckpt.every = 0;
    plan.threads.threads = 1;
    plan.profile = profile;
    return run(plan);
  }

 private:
  const trace::Marker before_;
};

}  // namespace

TEST_F(Window, HoldsItsUpdatesAndTheirPhases) {
  EXPECT_EQ(train({.window = {2, 4}}).at.step, 6);
  EXPECT_EQ(seen.ranges["ProfilerStep#2"], 1);
  EXPECT_EQ(seen.ranges["ProfilerStep#3"], 1);
  EXPECT_EQ(seen.ranges.count("ProfilerStep#1") + seen.ranges.count("ProfilerStep#4"), 0u);
  for (const char* phase : {"forward", "backward", "optimizer", "zero_grad"})
    EXPECT_EQ(seen.ranges[phase], 2) << phase;
  EXPECT_EQ(seen.ranges["conv2d conv1"], 4) << "module forward, and op of the backward, 2 updates";
  EXPECT_EQ(seen.open, 0);
  EXPECT_EQ(seen.started, 1);
  EXPECT_EQ(seen.stopped, 1);
}

TEST_F(Window, MayEndTheRun) {
  EXPECT_EQ(train({.window = {1, 3}, .exit_after = true}).at.step, 3);
  EXPECT_EQ(seen.stopped, 1);
}

TEST_F(Window, WithoutOneNothingIsMarked) {
  train({});
  EXPECT_TRUE(seen.ranges.empty());
}

TEST(ProfilerNote, NamesTheUpdatesAndTheScript) {
  EXPECT_THAT(profiler_note({.window = {20, 30}}),
              testing::AllOf(HasSubstr("updates 20 to 29; "), HasSubstr(" tools/nsys.sh")));
  EXPECT_EQ(profiler_note({}), "");
}

class NsysScript : public Program {
  std::string program() const override { return source_dir() + "/tools/nsys.sh"; }
};

TEST_F(NsysScript, NamesWhatIsMissing) {
  if (build_dir() != source_dir() + "/build") GTEST_SKIP() << "the script runs build/trainer";
  if (std::system("PATH=/usr/bin:/bin command -v nsys > /dev/null") == 0) GTEST_SKIP() << "nsys";
  const Ended ended = run({"--config", "configs/lenet.yaml"},
                          [] { setenv("PATH", "/usr/bin:/bin", /*overwrite=*/1); });
  EXPECT_EQ(ended.code, 2);
  const bool has_cuda = cuda_report().code.runtime != 0;
  EXPECT_EQ(ended.err,
            cat("nsys.sh: missing: ", has_cuda ? "" : "a build with CUDA (tools/train.sh --cuda); ",
                "nsys (the package nsight-systems-cli of "
                "developer.nvidia.com/nsight-systems); without them, use  "
                "build/trainer profile\n"));
}
