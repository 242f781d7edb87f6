// Training by the launchers that users have: torchrun, mpirun, srun. A launcher that is not
// installed is skipped. BELLOWS_TORCHRUN names a torchrun that is not in PATH.
#include <gmock/gmock.h>
#include <unistd.h>
#include <sstream>
#include "tests/place.h"
#include "tests/trainer/program.h"

using namespace bellows;
namespace fs = std::filesystem;
using testing::HasSubstr;

namespace {

// Returns the path of a program; "" if it is not in PATH.
std::string in_path(const std::string& name) {
  std::istringstream folders(std::getenv("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((fs::path(folder) / name).c_str(), X_OK) == 0) return fs::path(folder) / name;
  return "";
}

class LaunchersTest : public Program {
 protected:
  std::string program() const override { return "/usr/bin/env"; }

  // Runs the trainer after the words of a launcher. Returns the hash of its parameters.
  std::string train_by(Args words, const std::string& name) {
    const Args training = {
        "--config",          source_dir() + "/configs/lenet.yaml",
        "train.max_iters=4", "data={train_size: 64, test_size: 20, batch_size: 8}",
        "--run-dir",         name};
    words.insert(words.end(), training.begin(), training.end());
    const std::string out = succeed(words, [] { setenv("OMP_NUM_THREADS", "1", 1); });
    EXPECT_THAT(out, HasSubstr("ranks: 2 (gloo, shared memory), global batch 16 = 2 x 8"));
    return hash_in(out);
  }
  const std::string trainer_ = program_dir() + "/trainer";
};

}  // namespace

TEST_F(LaunchersTest, TrainTheSame) {
  const char* const given = std::getenv("BELLOWS_TORCHRUN");
  std::vector<Args> launchers = {
      {given ? given : in_path("torchrun"), "--standalone", "--nproc-per-node", "2", "--no-python"},
      {in_path("mpirun"), "--allow-run-as-root", "--oversubscribe", "-n", "2"}};
  const Ended nodes = run({"timeout", "2", "sinfo", "--noheader", "--states", "idle"});
  if (nodes.out.find(" idle ") != nodes.out.npos)
    launchers.push_back({in_path("srun"), "--immediate=5", "-n", "2"});
  std::erase_if(launchers, [](const Args& words) { return words[0].empty(); });
  if (launchers.empty()) GTEST_SKIP() << "no torchrun, mpirun or srun with an idle node";
  const std::string hash = train_by({trainer_, "launch", "--ranks", "2", "--"}, "launch");
  for (const Args& words : launchers)
    EXPECT_EQ(train_by(with(words, {trainer_}), cat("run", runs_)), hash) << words[0];
}
