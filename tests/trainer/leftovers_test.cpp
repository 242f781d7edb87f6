// Files that a process leaves when it ends, in whatever way, and input that is refused or warned
// about because it would leave unwanted files.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmath>
#include <csignal>
#include "core/tensor/safetensors.h"
#include "tests/trainer/program.h"
#include "trainer/state/run_folder.h"

using namespace bellows;
namespace fs = std::filesystem;
using testing::ElementsAre;

// ---- folders of ab

class Scratch : public Program {
 protected:
  Scratch() : before_(fs::current_path()) { fs::current_path(folder_); }
  ~Scratch() override { fs::current_path(before_); }
  static std::vector<std::string> runs() {
    std::vector<std::string> names;
    for (const Path& path : paths_in("runs", Exit::internal)) names.push_back(path.filename());
    return names;
  }
  // Forks a process that creates one and is killed, or reports it and lives on.
  static pid_t maker(bool dies) {
    int ends[2];
    if (pipe(ends) != 0) return -1;
    const pid_t process = fork();
    if (process == 0) {
      const ScratchFolder scratch;
      fs::create_directories(scratch / "off");
      if (::write(ends[1], "x", 1) != 1) _exit(1);
      while (!dies) pause();
      raise(SIGKILL);
    }
    char made = 0;
    EXPECT_EQ(::read(ends[0], &made, 1), 1);
    close(ends[0]);
    close(ends[1]);
    if (dies) waitpid(process, nullptr, 0);
    return process;
  }

 private:
  fs::path before_;
};

TEST_F(Scratch, AFolderGoesWithItsOwnerOrWithTheNextOne) {
  write("runs/ab-abcdef/plan.yaml", "a run of that name");
  maker(true);
  EXPECT_EQ(runs().size(), 2u);
  const pid_t alive = maker(false);
  EXPECT_EQ(runs().size(), 2u);
  {
    const ScratchFolder third;
    EXPECT_TRUE(fs::is_directory(fs::path(third / "off").parent_path()));
    EXPECT_EQ(runs().size(), 3u);
  }
  EXPECT_EQ(runs().size(), 2u);
  kill(alive, SIGKILL);
  waitpid(alive, nullptr, 0);
  { const ScratchFolder fourth; }
  EXPECT_THAT(runs(), ElementsAre("ab-abcdef"));
}

// ---- files

class Leftovers : public Program {
 protected:
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_))
      if (entry.path().filename().native()[0] != '.') names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }
};

TEST_F(Leftovers, ExportReplacesNoDeviceAndNoPipe) {
  succeed(tiny({}));
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  const std::string told = "not a regular file; choose another name";
  expect_refusal({"export", "runs/run", "pipe", "--overwrite"}, 8, told);
  EXPECT_TRUE(fs::is_fifo(folder_ / "pipe"));
  EXPECT_THAT(files(), ElementsAre("pipe", "runs"));
}

TEST_F(Leftovers, EmptyPathsAreRefused) {
  succeed(tiny({}));
  for (const Args& args : std::vector<Args>{tiny({"--config", ""}),
                                            tiny({"--resume="}),
                                            tiny({"--resume", ""}),
                                            tiny({"--run-dir", ""}),
                                            {"pack", "data={name: digits}", "--out", ""},
                                            {"eval", ""},
                                            {"predict", "runs/run", ""},
                                            {"export", "runs/run", ""}})
    expect_refusal(args, 2, ": the value is empty; write one, or leave the option out");
  succeed(tiny({"--resume"}));  // its value may be left out
}

// Each write to the pipe is partial or finds no room. The output must be complete all the same.
TEST_F(Leftovers, OutputToAPipeThatDoesNotBlockIsWhole) {
  const std::string expected = run({"list"}).out;
  ASSERT_GT(expected.size(), 8192u);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  fcntl(ends[1], F_SETPIPE_SZ, 4096);
  const auto running = start({"list"}, [&] { dup2(ends[1], 1); });
  close(ends[1]);
  std::string seen;
  char block[512];
  for (ssize_t n = 0; (n = ::read(ends[0], block, sizeof block)) != 0;) {
    if (n > 0) seen.append(block, n);
    usleep(1000);
  }
  close(ends[0]);
  EXPECT_EQ(running->end().code, 0);
  EXPECT_EQ(seen, expected);
}
