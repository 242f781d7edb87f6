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

TEST_F(RunFolderTest, NumbersOnlyWhatIsARunOfThatName) {
  for (const char* name : {"lenet-3", "lenet-07", "lenet-9x", "lenet-20261127", "lenet-", "net-8"})
    fs::create_directories(root_ / name);
  fs::create_directories(root_ / "lenet-50");  // the first run of a plan with that name
  std::ofstream(root_ / "lenet-50/plan.yaml") << "name: lenet-50     # a.yaml:1:1\n";
  EXPECT_THAT(list_runs(root_ / "lenet"), testing::ElementsAre(root_ / "lenet-3"));
  EXPECT_EQ(RunFolder(root_ / "lenet", IfExists::another).path(), root_ / "lenet-4");
  EXPECT_THAT(list_runs(root_ / "none"), testing::ElementsAre(root_ / "none"));
  EXPECT_THAT(list_runs(root_ / "no/folder"), testing::ElementsAre(root_ / "no/folder"));
}

TEST_F(RunFolderTest, RefusesToStartWhereARunHasWritten) {
  { const RunFolder first(root_ / "lenet", IfExists::refuse); }  // a lock alone is no run
  for (const char* name : {"plan.yaml", "metrics.jsonl", "checkpoints/step_00000001.safetensors",
                           "checkpoints/best.safetensors", "events.out.tfevents.1.h.2.0",
                           "pictures/step_00000001.png"}) {
    fs::create_directory(root_ / "lenet/pictures");
    std::ofstream(root_ / "lenet" / name) << "x";
    const Refusal used = refused([&] { RunFolder(root_ / "lenet", IfExists::refuse); });
    EXPECT_EQ(used.exit, Exit::usage) << name;
    EXPECT_THAT(used.message, HasSubstr("already holds a run"));
    fs::remove(root_ / "lenet" / name);
  }
  EXPECT_EQ(RunFolder(root_ / "lenet", IfExists::refuse).path(), root_ / "lenet");
}

TEST_F(RunFolderTest, OverwriteRemovesOnlyFilesOfRuns) {
  fs::create_directories(root_ / "lenet/checkpoints");
  fs::create_directories(root_ / "lenet/pictures");
  for (const char* name :
       {"plan.yaml", "metrics.jsonl", "notes.txt", "checkpoints/mine.safetensors",
        "checkpoints/step_best.safetensors", "checkpoints/best.safetensors",
        "checkpoints/step_00000001.safetensors", "events.out.tfevents.1.h.2.0",
        "pictures/step_00000001.png", "pictures/mine.png"})
    std::ofstream(root_ / "lenet" / name) << "x";
  const RunFolder run(root_ / "lenet", IfExists::overwrite);
  std::set<std::string> left;
  for (const auto& entry : fs::recursive_directory_iterator(run.path()))
    if (entry.is_regular_file()) left.insert(entry.path().filename());
  EXPECT_THAT(left, testing::ElementsAre(".lock", "mine.png", "mine.safetensors", "notes.txt",
                                         "step_best.safetensors"));
}
