// The program on a busy machine: how long its threads spin, and the CPU share that it reports.
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include "core/device/topology.h"
#include "tests/trainer/program.h"

using namespace bellows;

class BusyProgram : public Program {};

TEST_F(BusyProgram, BoundsHowLongThreadsSpinUnlessTheUserDoes) {
  const auto shows = [](const char* name, const char* value) {
    return [=] {
      for (const char* set : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}) unsetenv(set);
      setenv("OMP_DISPLAY_ENV", "verbose", 1);
      if (name) setenv(name, value, 1);
    };
  };
  EXPECT_THAT(run({"list"}, shows(nullptr, "")).err, HasSubstr("GOMP_SPINCOUNT = '10000'"));
  EXPECT_THAT(run({"list"}, shows("GOMP_SPINCOUNT", "77")).err, HasSubstr("GOMP_SPINCOUNT = '77'"));
  EXPECT_THAT(run({"list"}, shows("OMP_WAIT_POLICY", "passive")).err,
              HasSubstr("GOMP_SPINCOUNT = '0'"));
}

static void stay_on_one_core() {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(process_cores().front(), &set);
  sched_setaffinity(0, sizeof(set), &set);
}

TEST_F(BusyProgram, SaysWhatShareOfItsCoresItGotAndHasTheSameHashAsOnAQuietMachine) {
  const Args args = tiny({"train.epochs=40", "threads.threads=2", "toggles.thread_budget=off"});
  const std::string quiet = succeed(args);
  pid_t busy[2];
  for (pid_t& child : busy)
    if ((child = fork()) == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      stay_on_one_core();
      for (;;) asm volatile("");
    }
  const Ended crowded = run(args, stay_on_one_core);
  for (const pid_t child : busy) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  EXPECT_EQ(crowded.code, 0) << crowded.err;
  EXPECT_THAT(crowded.out, ContainsRegex("\ncpu: got [0-9]+ % of 2 cores, load [0-9.]+\n"));
  EXPECT_EQ(hash_in(crowded.out), hash_in(quiet));
}
