// Arms as processes, which are real programs: their time slices, every failure of an arm, and
// `trainer ab` on several ranks.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include "tests/place.h"
#include "tests/refusal.h"
#include "tests/trainer/processes.h"
#include "tests/trainer/rank_programs.h"
#include "trainer/ab/process.h"

using namespace bellows;

namespace {

constexpr double kPatience = 60;  // s

std::vector<std::string> shell(const std::string& script) { return {"sh", "-c", script}; }

}  // namespace

TEST(ArmProcess, StartsWithAnEmptySignalMask) {
  sigset_t blocked, before;
  sigfillset(&blocked);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  // Not in a shell, which would clear the mask itself.
  ArmProcess arm("arm", {"sed", "-n", "/SigBlk/w/proc/self/fd/3", "/proc/self/status"}, kPatience);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(arm.finish(), "SigBlk:\t0000000000000000");
}

TEST(ArmProcess, MayReportMoreThanAPipeOrALineOfARankHolds) {
  ArmProcess arm("arm",
                 shell("head -c 3000000 /dev/zero | tr '\\0' x >&3; echo >&3; kill -STOP $$"),
                 kPatience);
  EXPECT_EQ(arm.run_slice(), std::string(3'000'000, 'x'));
}

// `slices` are run without an error. Then the next one fails or, with `ends`, the end of the arm.
TEST(ArmProcess, NamesEveryFailureOfAnArm) {
  const std::string slice = "echo 1 >&3; kill -STOP $$; ", hangs = "did not finish a time slice";
  const struct {
    std::string script;
    int slices;
    bool ends;
    Exit exit;
    std::string message;
    double patience = kPatience;
  } cases[] = {
      {"exit 3", 0, false, Exit::data, "arm ended with exit code 3 after 0 time slices"},
      {slice + "exit 6", 1, false, Exit::memory, "exit code 6"},
      {slice + "echo end >&3; exit 8", 1, true, Exit::storage, "exit code 8"},
      {slice + "kill -SEGV $$", 1, false, Exit::internal, "killed by signal 11 after 1 time slice"},
      {"exit 0", 0, false, Exit::internal, "ended too early"},
      {"echo 1 >&3; exit 0", 0, false, Exit::internal, "ended too early"},
      {slice + "exit 0", 1, true, Exit::internal, "ended too early"},
      {"exec sleep 1000", 0, false, Exit::internal, hangs, 0.1},
      {"echo 1 >&3; exec sleep 1000", 0, false, Exit::internal, hangs, 0.1},
      // more than a pipe holds
      {"echo 1 >&3; exec head -c 300000 /dev/zero >&3", 0, false, Exit::internal, hangs, 0.1},
      {slice + "exec sleep 1000 3>&-", 1, false, Exit::internal,
       "closed its report pipe after 1 time slice", 3},
  };
  for (const auto& [script, slices, ends, exit, message, patience] : cases) {
    SCOPED_TRACE(script);
    ArmProcess arm("arm", shell(script), patience);
    for (int i = 0; i < slices; ++i) EXPECT_EQ(arm.run_slice(), "1");
    const Refusal error = refused([&, &ends = ends] { ends ? arm.finish() : arm.run_slice(); });
    EXPECT_EQ(error.exit, exit);
    EXPECT_THAT(error.message, HasSubstr(message));
  }
  ArmProcess unknown("arm", {"/no/such/program"}, kPatience);
  EXPECT_THAT(refused([&] { unknown.run_slice(); }).message, HasSubstr("exit code 127"));
}

// A terminal signals all at once. An arm that ends of it is no failure of the arm.
TEST(ArmProcess, ThatASignalEndsBesideItsParentIsInterrupted) {
  pid_t killed = 0;
  const auto stop_all = [&] {
    if (killed) throw std::runtime_error("interrupted");
    const std::vector<pid_t> children = children_of(getpid());
    if (children.empty()) return;
    kill(children[0], SIGINT);
    killed = eventually([&] { return is_gone(children[0]); });
  };
  ArmProcess arm("arm", {"sleep", "60"}, kPatience, stop_all);
  EXPECT_THROW(arm.run_slice(), std::runtime_error);
}

TEST(ArmProcess, LeavesNoProcessAfterATimeOut) {
  pid_t pid = 0;
  {
    ArmProcess arm("arm", shell("echo $$ >&3; kill -STOP $$; exec sleep 1000"), 1);
    pid = std::stoi(arm.run_slice());
    EXPECT_EQ(kill(pid, 0), 0);
    refused([&] { arm.run_slice(); });
  }
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

// This process adopts orphans, so that it can see that they have ended.
TEST(ArmProcess, DiesWithItsParentEvenWhenThatIsKilled) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    ArmProcess stopped("arm", shell("echo $$ >&3; kill -STOP $$"), kPatience);
    ArmProcess running("arm", shell("echo $$ >&3; kill -STOP $$; while :; do :; done"), kPatience);
    const std::string pids = stopped.run_slice() + " " + running.run_slice() + "\n";
    if (write(pipe_ends[1], pids.data(), pids.size()) < 0) _exit(1);
    running.run_slice();
    _exit(1);
  }
  FILE* const pids = fdopen(pipe_ends[0], "r");
  int arms[2] = {};
  ASSERT_EQ(fscanf(pids, "%d %d", &arms[0], &arms[1]), 2);
  kill(parent, SIGKILL);
  EXPECT_EQ(waitpid(parent, nullptr, 0), parent);
  for (const int arm : arms) EXPECT_EQ(signal_that_ended(arm), SIGKILL);
  fclose(pids);
  close(pipe_ends[1]);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

namespace {

class AbOnRanks : public RankPrograms {
 protected:
  static Args ab(const std::string& toggle, const Args& more) {
    return with({"ab", "--toggle", toggle, "--config", cat(source_dir(), "/configs/ddp/lenet.yaml"),
                 "data.train_size=64", "data.test_size=8", "data.batch_size=8",
                 "toggles.gradient_accumulation=2"},
                more);
  }
};

}  // namespace

TEST_F(AbOnRanks, RunsTheToggleInOneArmAndReportsOnRank0) {
  const std::vector<Ended> ranks = run_ranks(
      2, ab("ddp", {"--processes", "2", "--steps", "2", "--blocks", "2", "--warmup", "2"}));
  for (const Ended& rank : ranks) EXPECT_EQ(rank.code, 0) << rank.err;
  EXPECT_THAT(ranks[0].out,
              AllOf(HasSubstr("ddp=off against"), HasSubstr("trainer launch --ranks 2 -- ab "),
                    HasSubstr(" counted 0 with it off and ")));
  EXPECT_THAT(ranks[0].out, Not(HasSubstr("did not run")));
  EXPECT_EQ(ranks[1].out, "");
}

TEST_F(AbOnRanks, EndsOnAllRanksWithAnArmThatDies) {
  const Args args = ab("overlap_allreduce", {"--steps", "1000000", "--warmup", "2"});
  const Running ranks = start_ranks(2, [&](int) { return args; });
  const pid_t ab_of_rank1 = ranks[1]->process();
  ASSERT_TRUE(eventually([&] { return children_of(ab_of_rank1).size() == 3; }));
  kill(children_of(ab_of_rank1)[0], SIGKILL);
  const std::vector<Ended> all = ends(ranks);
  EXPECT_THAT(all[1].err, HasSubstr("was killed by signal 9"));
  EXPECT_EQ(all[1].code, 9);
  EXPECT_EQ(all[0].code, 7) << all[0].err;
}
