// A run whose folder is lost, and a lock that fails because the file system has no locks, which is
// not reported as held by another run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cerrno>
#include <cstdlib>
#include "core/base/check.h"
#include "tests/fault/plant.h"
#include "tests/trainer/program.h"

using namespace bellows;
using testing::HasSubstr;
namespace fs = std::filesystem;

class LostFolder : public Program {
 protected:
  // Runs until the middle of the second epoch, then calls `lose`, and returns how the run ends.
  Ended run_until_lost(const std::function<void()>& lose, const Args& more = {}) {
    const Args slow =
        tiny({"data={name: digits, train_size: 64, test_size: 20, batch_size: 8, "
              "sim_latency_us: 10000}",
              "train.epochs=4", "eval.every=0"});
    const auto running = start(with(slow, more));
    EXPECT_TRUE(running->says("epoch: 2, iter: 2"));
    lose();
    return running->end();
  }
  fs::path at(const char* path) const { return folder_ / path; }
};

// A checkpoint that is written into a new folder of the old name is as good as lost.
TEST_F(LostFolder, EndsTheRun) {
  const std::vector<std::function<void()>> losses = {
      [this] { fs::remove_all(at("runs/run")); },
      [this] { fs::rename(at("runs/run"), at("moved")); },
      [this] {
        fs::remove_all(at("runs/run"));
        fs::create_directories(at("runs/run/checkpoints"));
      }};
  for (const auto& lose : losses) {
    fs::remove_all(at("runs"));
    const Ended ended = run_until_lost(lose);
    EXPECT_EQ(ended.code, 8) << ended.err;
    EXPECT_THAT(ended.err,
                HasSubstr("trainer: runs/run: the folder of the run was removed, moved"));
    EXPECT_EQ(std::ranges::count(ended.err, '\n'), 1) << ended.err;
    EXPECT_FALSE(fs::exists(at("runs/run/checkpoints/step_00000016.safetensors")));
  }
  EXPECT_EQ(checkpoints("moved").size(), 1u);
}

TEST_F(LostFolder, IsAWarningIfTheUserWantsThat) {
  const Ended ended =
      run_until_lost([this] { fs::remove_all(at("runs/run/")); }, {"ckpt.on_error=warn"});
  EXPECT_THAT(ended.out,
              HasSubstr("WARNING: this run continues without its checkpoint: runs/run: "));
  EXPECT_FALSE(fs::exists(at("runs/run/checkpoints")));
}

// The files of an earlier run would be removed through it, too.
TEST_F(LostFolder, ALinkInARunFolderIsNotFollowed) {
  for (const char* inner : {"checkpoints", "pictures"}) {
    write("elsewhere/step_00000001.safetensors", "of another run");
    write("elsewhere/step_00000001.png", "of another run");
    fs::remove_all(at("out"));
    fs::create_directories(at("out"));
    fs::create_directory_symlink("../elsewhere", at("out") / inner);
    expect_refusal(tiny({"--run-dir", "out", "--overwrite"}), 8,
                   cat("out/", inner, ": a link, and a run writes into its own folder only"));
    EXPECT_EQ(std::distance(fs::directory_iterator(at("elsewhere")), {}), 2);
  }
  fs::remove_all(at("runs"));
  const Ended ended = run_until_lost([this] {
    fs::rename(at("runs/run/checkpoints"), at("mine"));
    fs::create_directory_symlink(at("mine"), at("runs/run/checkpoints"));
  });
  EXPECT_EQ(ended.code, 8) << ended.err;
  EXPECT_EQ(std::distance(fs::directory_iterator(at("mine")), {}), 1);
}

TEST_F(LostFolder, AFailureToLockIsNoRunThatHoldsIt) {
  expect_refusal(tiny({"train.epochs=0"}), 8,
                 "runs/run/.lock: flock: No locks available; choose another folder with",
                 [this] { plant("flock", 1, "persist", at("log"), ENOLCK, "runs"); });
}
