// Gives all tests of the program a cache folder of their own, which a process reads once, and runs
// the first step of run_program. One thread then waits for signals, and the threads of the pool,
// which the first test starts, block them. Tests send signals to their own process.
#include <gtest/gtest.h>
#include <cstdlib>
#include <filesystem>
#include "trainer/run/signals.h"

namespace {

class ProgramEnvironment : public testing::Environment {
 public:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "bellows_cache_XXXXXX").string();
    cache_ = mkdtemp(name.data());
    setenv("XDG_CACHE_HOME", cache_.c_str(), 1);
    bellows::wait_for_signals();
  }
  void TearDown() override { std::filesystem::remove_all(cache_); }

 private:
  std::filesystem::path cache_;
};

}  // namespace

static testing::Environment* const environment =
    testing::AddGlobalTestEnvironment(new ProgramEnvironment);
