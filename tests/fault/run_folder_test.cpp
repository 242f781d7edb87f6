// A lock that fails because the file system has no locks is not reported as held by another run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <cstdlib>
#include "core/base/file.h"
#include "tests/place.h"

using namespace bellows;
using testing::HasSubstr;

TEST(RunFolderFault, AFailureToLockIsNoRunThatHoldsIt) {
  const Path folder = Path(testing::TempDir()) / cat("bellows_lock_fault_", ::getpid());
  std::filesystem::create_directories(folder);
  const std::string command = cat(
      "cd ", folder.native(), " && exec env FAULT_FOLDER=runs FAULT_CALL=flock FAULT_NTH=1",
      " FAULT_MODE=persist FAULT_ERRNO=", ENOLCK, " OMP_NUM_THREADS=1 LD_PRELOAD=", FAULT_PRELOAD,
      " ", build_dir(), "/trainer train train.epochs=0 ",
      "'model={name: layers, layers: [flatten, {name: linear, out: 10}]}' ",
      "'data={name: digits, train_size: 16, test_size: 16}' > out 2> err");
  const int status = std::system(command.c_str());
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(Exit::storage));
  EXPECT_THAT(read_file(folder / "err", 4096, Exit::internal),
              HasSubstr("runs/run/.lock: flock: No locks available; choose another folder with"));
  std::filesystem::remove_all(folder);
}
