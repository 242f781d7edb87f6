// A run's folder is never overwritten without a request, never shared, never used if not writable.
#include "trainer/state/run_folder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <fstream>
#include "tests/refusal.h"

using namespace bellows;
namespace fs = std::filesystem;
using testing::HasSubstr;

class RunFolderTest : public testing::Test {
 protected:
  RunFolderTest() { fs::create_directories(root_); }
  ~RunFolderTest() override { fs::remove_all(root_); }
  fs::path root_ = fs::temp_directory_path() / cat("bellows_run_folder_", getpid());
};

TEST_F(RunFolderTest, ASecondRunOfTheSameNameHasItsOwnFolder) {
  const RunFolder first(root_ / "lenet", IfExists::another);
  const RunFolder second(root_ / "lenet", IfExists::another);
  EXPECT_EQ(first.path(), root_ / "lenet");
  EXPECT_EQ(second.path(), root_ / "lenet-2");
  EXPECT_EQ(newest_run(root_ / "lenet"), root_ / "lenet-2");
}

TEST_F(RunFolderTest, RefusesToStartWhereARunHasWritten) {
  { const RunFolder first(root_ / "lenet", IfExists::refuse); }  // a lock alone is no run
  for (const char* name : {"plan.yaml", "metrics.jsonl", "checkpoints/step_00000001.safetensors",
                           "checkpoints/best.safetensors", "events.out.tfevents.1.h.2.0"}) {
    std::ofstream(root_ / "lenet" / name) << "x";
    const Refusal used = refused([&] { RunFolder(root_ / "lenet", IfExists::refuse); });
    EXPECT_EQ(used.exit, Exit::usage) << name;
    EXPECT_THAT(used.message, HasSubstr("already holds a run"));
    fs::remove(root_ / "lenet" / name);
  }
  EXPECT_EQ(RunFolder(root_ / "lenet", IfExists::refuse).path(), root_ / "lenet");
}

TEST_F(RunFolderTest, InUseNamesTheProcessThatHoldsIt) {
  const RunFolder owner(root_ / "lenet", IfExists::another);
  const Refusal second = refused([&] { RunFolder(root_ / "lenet", IfExists::keep); });
  EXPECT_EQ(second.exit, Exit::usage);
  EXPECT_THAT(second.message, HasSubstr(cat("in use by process ", getpid(), " on ")));
}

TEST_F(RunFolderTest, IsFreeAgainWhenItsRunIsOver) {
  { const RunFolder run(root_ / "lenet", IfExists::another); }
  EXPECT_EQ(RunFolder(root_ / "lenet", IfExists::keep).path(), root_ / "lenet");
}

TEST_F(RunFolderTest, OverwriteRemovesOnlyFilesOfRuns) {
  fs::create_directories(root_ / "lenet/checkpoints");
  for (const char* name :
       {"plan.yaml", "metrics.jsonl", "notes.txt", "checkpoints/mine.safetensors",
        "checkpoints/step_best.safetensors", "checkpoints/best.safetensors",
        "checkpoints/step_00000001.safetensors", "events.out.tfevents.1.h.2.0"})
    std::ofstream(root_ / "lenet" / name) << "x";
  const RunFolder run(root_ / "lenet", IfExists::overwrite);
  std::set<std::string> left;
  for (const auto& entry : fs::recursive_directory_iterator(run.path()))
    if (entry.is_regular_file()) left.insert(entry.path().filename());
  EXPECT_THAT(left, testing::ElementsAre(".lock", "mine.safetensors", "notes.txt",
                                         "step_best.safetensors"));
}

TEST_F(RunFolderTest, ThatCannotBeMadeIsAStorageErrorBeforeTheFirstStep) {
  std::ofstream(root_ / "file") << "x";
  const Refusal blocked = refused([&] { RunFolder(root_ / "file/run", IfExists::another); });
  EXPECT_EQ(blocked.exit, Exit::storage);
  EXPECT_THAT(blocked.message, HasSubstr("choose another folder with --run-dir"));
}
