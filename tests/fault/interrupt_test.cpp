// A signal in the middle of a write leaves no temporary file behind.
#include <gmock/gmock.h>
#include <unistd.h>
#include <csignal>
#include "tests/fault/plant.h"
#include "tests/trainer/program.h"

using namespace bellows;
namespace fs = std::filesystem;

class Interrupt : public Program {
 protected:
  // Starts a program whose nth rename never returns.
  std::unique_ptr<RunningProgram> start_hanging(const Args& args, int nth) {
    fs::remove(folder_ / "log");
    auto running = start(args, [=, this] { plant("rename", nth, "hang", folder_ / "log"); });
    for (int i = 0; i < 6000 && read("log").find("hit\n") == std::string::npos; ++i) usleep(5000);
    EXPECT_EQ(temporaries(), 1);
    return running;
  }
  int temporaries() const {
    int count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder_))
      count += entry.path().extension() == ".bellows-tmp";
    return count;
  }
};

TEST_F(Interrupt, LeavesNoTemporaryFileOfAVerb) {
  ASSERT_EQ(run(tiny({})).code, 0);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const auto running = start_hanging({"export", "runs/run", "x.safetensors"}, 1);
    running->send(signal);
    EXPECT_EQ(running->end().code, 128 + signal);
    EXPECT_EQ(temporaries(), 0);
  }
  EXPECT_FALSE(fs::exists(folder_ / "x.safetensors"));
}

// The first signal waits for the checkpoint that is being written, the second for nothing.
TEST_F(Interrupt, LeavesNoTemporaryFileOfARunThatIsEndedAtOnce) {
  const auto running = start_hanging(tiny({}), 3);  // plan.yaml and env.json come first
  running->send(SIGINT);
  EXPECT_EQ(temporaries(), 1);
  usleep(200000);  // within 0.1 s it would be the same request
  running->send(SIGINT);
  EXPECT_EQ(running->end().code, 130);
  EXPECT_EQ(temporaries(), 0);
}
