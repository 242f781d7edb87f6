// Checkpoints in a folder: damaged ones are not used, the newest is found by step, foreign files
// stay.
#include "trainer/state/checkpoints.h"
#include "tests/matchers.h"
#include "tests/moved.h"
#include "tests/refusal.h"
#include "tests/temp_folder.h"

using namespace bellows;
namespace fs = std::filesystem;

class CheckpointsTest : public testing::Test {
 protected:
  void save(Checkpoints& checkpoints, int64_t step) {
    checkpoints.save(step, {{"w", full({4}, double(step))}}, {{"step", std::to_string(step)}});
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder_))
      all.push_back(entry.path().filename());
    std::ranges::sort(all);
    return all;
  }
  const TempFolder temporary_;
  const fs::path folder_ = temporary_.path;
  std::vector<std::string> messages_;
};

TEST_F(CheckpointsTest, KeepsTheNewestAndLeavesForeignFilesAlone) {
  for (const char* name : {"step_1.safetensors", "step_00000001 (copy).safetensors", "notes"})
    std::ofstream(folder_ / name) << "x";
  Checkpoints checkpoints(folder_, {.keep = 2});
  for (int64_t step = 1; step <= 4; ++step) save(checkpoints, step);
  fs::last_write_time(checkpoint_path(folder_, 4), fs::file_time_type::min());
  EXPECT_EQ(load_newest(folder_, messages_).path, checkpoint_path(folder_, 4)) << "by step";
  EXPECT_THAT(messages_, ElementsAre());
  EXPECT_THAT(names(),
              ElementsAre("notes", "step_00000001 (copy).safetensors", "step_00000003.safetensors",
                          "step_00000004.safetensors", "step_1.safetensors"));
}

TEST_F(CheckpointsTest, ABackgroundSaveHoldsTheStateOfItsStep) {
  Checkpoints checkpoints(folder_, {.async = true});
  const Tensor w = full({4}, 1);
  checkpoints.save(1, {{"w", w}}, {});
  w.data<float>()[0] = 99;  // training goes on at once
  checkpoints.wait();
  EXPECT_EQ(load_newest(folder_, messages_).content.tensors[0].tensor.data<float>()[0], 1);
}

TEST_F(CheckpointsTest, RetriesASaveAndNeverReportsAFailedOneAsDone) {
  const fs::path file = folder_ / "a file, no folder";
  std::ofstream(file) << "x";
  for (const bool async : {false, true}) {
    const Moved retries("ckpt.retries");
    Checkpoints checkpoints(file, {.async = async, .retries = 2});
    complaint(Exit::storage, [&] { save(checkpoints, 1), checkpoints.wait(); });
    EXPECT_EQ(retries, 2) << async;
    EXPECT_THAT(checkpoints.take_messages(), ElementsAre());
  }
}

TEST_F(CheckpointsTest, NeverDeletesTheOneThatTheRunBeganWith) {
  Checkpoints first(folder_, {.keep = 1});
  save(first, 1);
  Checkpoints resumed(folder_, {.keep = 1}, checkpoint_path(folder_, 1));
  save(resumed, 2);
  save(resumed, 3);
  EXPECT_THAT(names(), ElementsAre("step_00000001.safetensors", "step_00000003.safetensors"));
}

// A run that resumed before a damaged checkpoint saves lower steps than that one.
TEST_F(CheckpointsTest, NeverDeletesTheOneThatItHasJustWritten) {
  Checkpoints first(folder_, {});
  save(first, 5);
  save(first, 9);
  fs::resize_file(checkpoint_path(folder_, 9), 99);
  Checkpoints resumed(folder_, {.keep = 1});
  save(resumed, 6);
  save(resumed, 7);
  EXPECT_THAT(names(), ElementsAre("step_00000007.safetensors", "step_00000009.safetensors"));
}
