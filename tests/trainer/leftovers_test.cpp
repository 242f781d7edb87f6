// Files that a process leaves when it ends, in whatever way, and paths that are refused because
// they would leave unwanted files.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
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

TEST_F(Program, EmptyPathsAreRefused) {
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
