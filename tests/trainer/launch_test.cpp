// Ranks as processes: outputs, failures, signals, kills. Most ranks are shell scripts, which signal
// this process by $PPID; the others are the real program.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <pty.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <ctime>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <thread>
#include "core/base/check.h"
#include "tests/trainer/processes.h"
#include "tests/trainer/program.h"
#include "trainer/launch/child.h"
#include "trainer/launch/supervise.h"

using namespace bellows;
namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

using Scripts = std::vector<std::string>;

std::vector<RankCommand> shells(const Scripts& scripts) {
  std::vector<RankCommand> ranks;
  for (const std::string& script : scripts)
    ranks.push_back({std::ssize(ranks), {{"sh", "-c", script}}});
  return ranks;
}

// Runs the ranks and returns the exit code and everything printed.
Ended supervised_ranks(const std::vector<RankCommand>& ranks,
                       const SuperviseOptions& options = {}) {
  Ended ended;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  std::string message;
  try {
    ended.code = supervise(ranks, options);
  } catch (const Error& error) {
    ended.code = static_cast<int>(error.exit);
    message = error.what();
  }
  ended.out = testing::internal::GetCapturedStdout();
  ended.err = testing::internal::GetCapturedStderr() + message;
  return ended;
}
Ended supervised(const Scripts& scripts, const SuperviseOptions& options = {}) {
  return supervised_ranks(shells(scripts), options);
}

const char* const kWait = "while :; do sleep 0.02; done";  // traps run between the sleeps
const SuperviseOptions kAll = {.all_output = true};

std::vector<pid_t> wait_for_children(pid_t parent, size_t count) {
  std::vector<pid_t> children;
  eventually([&] { return (children = children_of(parent)).size() >= count; });
  return children;
}

// Waits for a process that this one has adopted. Returns the signal that ended it, 0 if none did.
int signal_that_ended(pid_t pid) {
  int status = 0;
  const bool over = eventually([&] { return waitpid(pid, &status, WNOHANG) == pid; });
  return over && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

// Variables of a process, once it is a rank: between fork and exec it has those of its parent.
std::map<std::string, std::string> variables_of(pid_t pid) {
  std::map<std::string, std::string> variables;
  eventually([&] {
    std::ifstream all(cat("/proc/", pid, "/environ"), std::ios::binary);
    for (std::string line; std::getline(all, line, '\0');)
      variables[line.substr(0, line.find('='))] = line.substr(line.find('=') + 1);
    return variables.contains("BELLOWS_RANK");
  });
  return variables;
}

class LaunchTest : public Program {
 protected:
  // Adopts orphans, so that tests see how they ended.
  LaunchTest() { prctl(PR_SET_CHILD_SUBREAPER, 1); }
  ~LaunchTest() override { prctl(PR_SET_CHILD_SUBREAPER, 0); }

  std::string file(const std::string& name) const { return folder_ / name; }
  // A script that waits until that file exists.
  std::string until(const std::string& name) const {
    return cat("while [ ! -e ", file(name), " ]; do sleep 0.01; done; ");
  }
  // Two ranks that train slowly and save only at the end.
  std::unique_ptr<RunningProgram> start_two_ranks() {
    Args args =
        tiny({"data={name: digits, train_size: 64, test_size: 20, batch_size: 8, "
              "sim_latency_us: 20000}",
              "train.epochs=1000", "eval.every=0", "ckpt.every=0", "--run-dir", "run"});
    args.insert(args.begin(), {"launch", "--ranks", "2", "--"});
    auto running = start(args, [] { setenv("OMP_NUM_THREADS", "1", 1); });
    EXPECT_TRUE(running->says("epoch: 1, iter: 2"));
    return running;
  }
  void expect_orderly_stop(RunningProgram& running) const {
    const Ended ended = running.end();
    EXPECT_EQ(ended.code, 143);
    EXPECT_EQ(ended.err, "");
    EXPECT_THAT(ended.out, HasSubstr("stopped by SIGTERM after step "));
    EXPECT_EQ(checkpoints("run").size(), 1u);
  }
};

}  // namespace

// ---- output

TEST_F(LaunchTest, Rank0PrintsUnchangedAndOthersNothing) {
  const Ended ended = supervised({"printf 'a\\r\\033[Kb'; echo c >&2", "echo d; echo e >&2"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.out, "a\r\033[Kb");
  EXPECT_EQ(ended.err, "c\n");
}

TEST_F(LaunchTest, AllRanksPrintWholeLinesWithTheirNumbers) {
  const Ended ended = supervised(
      {"printf 'left '; sleep 0.1; echo right", "echo out; echo err >&2; printf unfinished"}, kAll);
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.out, AllOf(HasSubstr("[0] left right\n"), HasSubstr("[1] out\n"),
                               HasSubstr("[1] unfinished\n")));
  EXPECT_EQ(ended.err, "[1] err\n");
}

TEST_F(LaunchTest, ATerminalObeysNothingThatARankPrints) {
  const Ended ended = supervised({"printf '\\033[2J\\n'"}, kAll);
  EXPECT_EQ(ended.out, "[0] \\x1b[2J\n");
}

TEST_F(LaunchTest, NoLineIsLostInAFlood) {
  const std::string flood = "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done";
  const Ended ended = supervised({flood, flood}, kAll);
  EXPECT_EQ(std::ranges::count(ended.out, '\n'), 40000);
  EXPECT_THAT(ended.out, AllOf(HasSubstr("[0] line 19999\n"), HasSubstr("[1] line 19999\n")));
}

TEST_F(LaunchTest, AnEndlessLineIsCut) {
  const Ended ended = supervised({"head -c 3000000 /dev/zero | tr '\\0' x"}, kAll);
  EXPECT_EQ(std::ranges::count(ended.out, 'x'), 3000000);
  EXPECT_GE(std::ranges::count(ended.out, '\n'), 2);
}

TEST_F(LaunchTest, ARankHasNoInput) {
  EXPECT_EQ(supervised({"[ $(readlink /proc/$$/fd/0) = /dev/null ]"}).code, 0);
}

TEST_F(LaunchTest, AClosedOutputCostsNoProcessorTime) {
  const auto cost_of = [](const std::string& script) {
    const std::clock_t before = std::clock();
    EXPECT_EQ(supervised({script}, kAll).code, 0);
    return std::clock() - before;
  };
  const std::clock_t open = cost_of("sleep 0.5");
  EXPECT_LT(cost_of("exec >&- 2>&-; sleep 0.5"), open + CLOCKS_PER_SEC / 20);
}

// ---- failures

TEST_F(LaunchTest, TheFirstFailureIsTheCauseAndEndsTheOthers) {
  const Ended ended = supervised({"exec sleep 100", "exec sleep 100", "echo why >&2; exit 3"});
  EXPECT_EQ(ended.code, 3);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("[2] why\n"),
                               HasSubstr("launch: rank 2 ended first, with exit 3 (data); ")));
}

TEST_F(LaunchTest, TheLastTwentyLinesOfTheCauseArePrinted) {
  const Ended ended = supervised(
      {"exec sleep 100", "i=0; while [ $i -lt 30 ]; do i=$((i+1)); echo $i; done; exit 9"});
  EXPECT_EQ(ended.code, 9);
  EXPECT_THAT(ended.err, testing::StartsWith("[1] 11\n[1] 12\n"));
  EXPECT_EQ(std::ranges::count(ended.err, '\n'), 20);
}

TEST_F(LaunchTest, OnlyLinesThatWerePrintedAreMentioned) {
  EXPECT_EQ(supervised({"exec sleep 100", "exit 3"}).err,
            "launch: rank 1 ended first, with exit 3 (data)");
}

TEST_F(LaunchTest, TheExitCodeOfARankThatASignalEndedIsThatOfAShell) {
  const Ended crashed = supervised({"kill -SEGV $$", "exec sleep 100"});
  EXPECT_EQ(crashed.code, 128 + SIGSEGV);
  EXPECT_THAT(crashed.err, HasSubstr("launch: rank 0 ended first, by signal 11 (Segm"));
  const Ended killed = supervised({"exec sleep 100", "kill -KILL $$"});
  EXPECT_EQ(killed.code, 128 + SIGKILL);
  EXPECT_THAT(killed.err, AllOf(HasSubstr("rank 1 ended first, by signal 9"), HasSubstr("memory")));
}

TEST_F(LaunchTest, ExitSevenGivesWayToTheFailureThatCausedIt) {
  const Ended later = supervised({"exit 7", "sleep 0.2; exit 3", "exec sleep 100"});
  EXPECT_EQ(later.code, 3);
  EXPECT_THAT(later.err, HasSubstr("rank 1 ended first, with exit 3"));
  EXPECT_EQ(supervised({"exit 7", "sleep 0.2; kill -KILL $$"}).code, 128 + SIGKILL);
}

TEST_F(LaunchTest, ExitSevenIsTheCauseWhenTheOthersOnlyEndByOurSignals) {
  const Ended ended = supervised({"exec sleep 100", "exit 7"});
  EXPECT_EQ(ended.code, 7);
  EXPECT_THAT(ended.err, HasSubstr("launch: rank 1 ended first, with exit 7 (distributed)"));
}

// Rank 0 writes the files, and the others end with its code.
TEST_F(LaunchTest, AFailureOfAllRanksIsRank0s) {
  const Ended ended = supervised({"sleep 0.2; exit 8", "echo with rank 0; exit 8"});
  EXPECT_EQ(ended.code, 8);
  EXPECT_EQ(ended.err,
            "launch: rank 0 ended first, with exit 8 (storage); its last lines are above");
}

TEST_F(LaunchTest, RanksThatRunOnAfterAnotherHasEndedAreEnded) {
  for (const std::string& stuck : Scripts{"kill -STOP $$", "trap '' TERM; " + std::string(kWait)}) {
    const Ended ended = supervised({"exit 0", stuck}, {.grace_s = 0.2, .timeout_s = 0.3});
    EXPECT_EQ(ended.code, 7);
    EXPECT_THAT(ended.err, testing::StartsWith("launch: rank 1 was stopped or stuck: it ran on for "
                                               "0.3 s (dist.timeout_s)"));
  }
  EXPECT_EQ(supervised({"exit 0", "sleep 0.2"}, {.timeout_s = 10}).code, 0);
}

TEST_F(LaunchTest, ARankThatIgnoresSigtermIsKilled) {
  const std::string stubborn =
      cat("trap '' TERM; echo $$ > ", file("pid"), "; touch ", file("ready"), "; ", kWait);
  const Ended ended = supervised({until("ready") + "exit 3", stubborn}, {.grace_s = 0.3});
  EXPECT_EQ(ended.code, 3);
  EXPECT_TRUE(is_gone(std::stoi(read("pid"))));
}

TEST_F(LaunchTest, ARankThatDoesNotStopWithTheOthersIsKilledWithALine) {
  const Ended ended =
      supervised({"trap '' TERM; " + std::string(kWait), "exit 143"}, {.grace_s = 0.3});
  EXPECT_EQ(ended.code, 143);
  EXPECT_THAT(ended.err, HasSubstr("rank 1 stopped, but another one did not, even after 0.3 s"));
}

// Without SIGCONT it would end after the grace time only.
TEST_F(LaunchTest, AStoppedRankEndsAtOnce) {
  const std::string stopped = cat("trap 'touch ", file("term"), "; exit 0' TERM; touch ",
                                  file("ready"), "; kill -STOP $$; ", kWait);
  const Ended ended = supervised({until("ready") + "sleep 0.1; exit 3", stopped}, {.grace_s = 1e6});
  EXPECT_EQ(ended.code, 3);
  EXPECT_TRUE(fs::exists(file("term")));
}

TEST_F(LaunchTest, NoProcessOfARankOutlivesIt) {
  const Ended ended = supervised({cat("sleep 100 & echo $! > ", file("pid"))});
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(signal_that_ended(std::stoi(read("pid"))), SIGKILL);
}

TEST_F(LaunchTest, ACommandThatCannotBeExecutedIsAFailure) {
  std::vector<RankCommand> ranks = shells({"exec sleep 20"});
  ranks.push_back({1, {{"/no/such/program"}}});  // without a shell, which would end with 127 itself
  EXPECT_EQ(supervised_ranks(ranks).code, 127);
}

// ---- signals

TEST_F(LaunchTest, SignalsGoToAllRanks) {
  for (const char* signal : {"USR1", "HUP"}) {
    const std::string ready = cat("ready.", signal);
    const std::string trap = cat("trap 'exit 0' ", signal, "; ");
    const Ended ended = supervised({trap + until(ready) + "kill -" + signal + " $PPID; " + kWait,
                                    trap + "touch " + file(ready) + "; " + kWait});
    EXPECT_EQ(ended.code, 0) << signal;
    EXPECT_THAT(ended.err, Not(HasSubstr("launch:"))) << signal;
  }
}

TEST_F(LaunchTest, AfterAStopSignalTheExitCodeIsThatOfTheRanks) {
  const Ended handled =
      supervised({cat("trap 'exit 143' TERM; ", until("ready"), "kill -TERM $PPID; ", kWait),
                  cat("trap 'sleep 0.2; exit 143' TERM; touch ", file("ready"), "; ", kWait)});
  EXPECT_EQ(handled.code, 143);
  EXPECT_THAT(handled.err, Not(HasSubstr("launch:")));  // a shell may report its own child
  EXPECT_EQ(supervised({"kill -INT $PPID; exec sleep 100", "exec sleep 100"}).code, 130);
  const std::string done = cat("trap 'exit 0' TERM; ");  // they had just trained to the end
  EXPECT_EQ(supervised({cat(done, "kill -TERM $PPID; ", kWait)}).code, 0);
}

TEST_F(LaunchTest, RanksThatLoseEachOtherAfterAStopSignalAreNoFailure) {
  const Ended ended =
      supervised({cat("trap 'exit 7' TERM; ", until("ready"), "kill -TERM $PPID; ", kWait),
                  cat("touch ", file("ready"), "; exec sleep 100")});
  EXPECT_EQ(ended.code, 143);
  EXPECT_THAT(ended.err, Not(HasSubstr("launch:")));
}

TEST_F(LaunchTest, AStopSignalReachesAStoppedRank) {
  const std::string trap = "trap 'exit 143' TERM; ";
  const Ended ended = supervised({trap + until("ready") + "sleep 0.1; kill -TERM $PPID; " + kWait,
                                  trap + "touch " + file("ready") + "; kill -STOP $$; " + kWait});
  EXPECT_EQ(ended.code, 143);
}

TEST_F(LaunchTest, TheSecondStopSignalKills) {
  const std::string stubborn = "trap '' INT TERM; ";
  const Ended ended =
      supervised({stubborn + "while :; do kill -INT $PPID; sleep 0.02; done", stubborn + kWait});
  EXPECT_EQ(ended.code, 130);
}

// A second one would end the rank without its last checkpoint.
TEST_F(LaunchTest, ARankThatFailsAfterSigtermCausesNoSecondSigterm) {
  const std::string saves = cat("trap 'echo one >> ", file("terms"), "' TERM; touch ",
                                file("ready"), "; ", until("failed"), "sleep 0.3; exit 143");
  const std::string fails = cat("trap 'touch ", file("failed"), "; exit 8' TERM; ", until("ready"),
                                "kill -TERM $PPID; ", kWait);
  const Ended ended = supervised({saves, fails});
  EXPECT_EQ(ended.code, 8);
  EXPECT_THAT(ended.err, HasSubstr("rank 1 ended first, with exit 8 (storage)"));
  EXPECT_EQ(read("terms"), "one\n");
}

TEST_F(LaunchTest, AnAgreedStopIsNoFailure) {
  const std::string later = cat("trap 'touch ", file("term"), "' TERM; sleep 0.3; exit ");
  EXPECT_EQ(supervised({later + "143", "exit 143"}).code, 143);
  EXPECT_EQ(supervised({later + "7", "exit 143"}).code, 143);  // it lost the one that had stopped
  const Ended interrupted = supervised({later + "130", "exit 130"});
  EXPECT_EQ(interrupted.code, 130);
  EXPECT_EQ(interrupted.err, "");
  EXPECT_FALSE(fs::exists(file("term")));  // nothing hurries a rank that stops
}

TEST_F(LaunchTest, AFailureAfterAnAgreedStopIsAFailure) {
  const Ended failed = supervised({"sleep 0.3; exit 8", "exit 143"});
  EXPECT_EQ(failed.code, 8);
  EXPECT_THAT(failed.err, HasSubstr("rank 0 ended first, with exit 8 (storage)"));
  EXPECT_EQ(supervised({"sleep 0.3; kill -SEGV $$", "exit 143"}).code, 128 + SIGSEGV);
}

// Ctrl-C of a terminal reaches a process group. In the launcher's, a rank would receive it twice.
TEST_F(LaunchTest, EachRankLeadsAProcessGroup) {
  const std::string check =
      "read pid name state parent group rest < /proc/$$/stat; "
      "[ $group = $$ ]";
  EXPECT_EQ(supervised({check, check}).code, 0);
}

// ---- a terminal

// The program in the foreground of a terminal that stops background processes which write to it.
class Terminal {
 public:
  Terminal(const std::string& program, const std::vector<std::string>& args) {
    std::vector<char*> argv = {const_cast<char*>("trainer")};
    for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
    argv.push_back(nullptr);
    process_ = forkpty(&screen_, nullptr, nullptr, nullptr);
    if (process_ > 0) return;
    termios settings;
    tcgetattr(STDOUT_FILENO, &settings);
    settings.c_lflag |= TOSTOP;
    tcsetattr(STDOUT_FILENO, TCSANOW, &settings);
    execv(program.c_str(), argv.data());
    _exit(99);
  }
  ~Terminal() {
    close(screen_);
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Terminal(Terminal&&) = delete;

  pid_t process() const { return process_; }
  void type(char key) const { EXPECT_EQ(write(screen_, &key, 1), 1); }
  // Reads until the program ends. Returns its output and exit code, 99 after 20 seconds.
  Ended end() {
    fcntl(screen_, F_SETFL, O_NONBLOCK);
    Ended ended = {99, "", ""};
    int status = 0;
    eventually([&] {
      const bool over = waitpid(process_, &status, WNOHANG) == process_;
      char text[4096];
      for (ssize_t n; (n = read(screen_, text, sizeof(text))) > 0;) ended.out.append(text, n);
      if (over) ended.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      return over;
    });
    return ended;
  }

 private:
  int screen_ = -1;
  pid_t process_ = -1;
};

TEST_F(LaunchTest, RanksMayWriteToATerminalInTheBackground) {
  Terminal terminal(program(), {"launch", "--ranks", "2", "--", "list", "verbs"});
  const Ended ended = terminal.end();
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.out, HasSubstr("launch"));
}

TEST_F(LaunchTest, CtrlCEndsTheRanks) {
  Terminal terminal(program(), {"launch", "--ranks", "2", "--", "check"});
  const auto ranks = wait_for_children(terminal.process(), 2);
  terminal.type('\x03');
  EXPECT_EQ(terminal.end().code, 130);
  for (const pid_t rank : ranks) EXPECT_TRUE(is_gone(rank));
}

// ---- kills

TEST_F(LaunchTest, AHundredRandomKillsEndEveryLaunch) {
  std::mt19937 random(7);
  for (int i = 0; i < 100; ++i) {
    const size_t victim = random() % 3;
    const int signal = std::vector{SIGKILL, SIGTERM, SIGSEGV, SIGINT, SIGABRT}[random() % 5];
    const int delay_us = static_cast<int>(random() % 5000);
    std::atomic<bool> killed = false;
    std::thread killer([&] {
      const auto ranks = wait_for_children(getpid(), 1 + victim);
      usleep(delay_us);
      killed = kill(ranks.back(), signal) == 0;
    });
    const Ended ended = supervised(Scripts(3, "exec sleep 100"));
    killer.join();
    EXPECT_TRUE(killed);
    EXPECT_EQ(ended.code, 128 + signal) << ended.err;
    EXPECT_TRUE(children_of(getpid()).empty());
  }
}

TEST_F(LaunchTest, NothingIsLeftWhenTheSupervisorIsKilled) {
  const std::string script = cat("echo $$ > ", folder_.string(), "/$RANK.pid; ", kWait);
  const pid_t parent = fork();
  if (parent == 0) {
    std::vector<RankCommand> ranks = shells(Scripts(3, script));
    for (RankCommand& rank : ranks) rank.command.variables = {cat("RANK=", rank.rank)};
    supervise(ranks, kAll);
    _exit(1);
  }
  std::vector<pid_t> ranks;
  for (const char* name : {"0.pid", "1.pid", "2.pid"}) {
    EXPECT_TRUE(eventually([&] { return read(name).ends_with("\n"); }));
    ranks.push_back(std::atoi(read(name).c_str()));
  }
  kill(parent, SIGKILL);
  EXPECT_EQ(waitpid(parent, nullptr, 0), parent);
  for (const pid_t rank : ranks) EXPECT_EQ(signal_that_ended(rank), SIGKILL);
}

// ---- the verb

TEST_F(LaunchTest, RanksRunThisProgram) {
  const Ended alone = run({"list", "verbs"});
  const Ended one = run({"launch", "--ranks", "1", "--", "list", "verbs"});
  const Ended two = run({"launch", "--ranks", "2", "--", "list", "verbs"});
  const Ended all = run({"launch", "--ranks", "2", "--output", "all", "--", "list", "verbs"});
  for (const Ended& ended : {alone, one, two, all}) {
    EXPECT_EQ(ended.code, 0);
    EXPECT_EQ(ended.err, "");
  }
  EXPECT_EQ(one.out, alone.out);
  EXPECT_EQ(two.out, alone.out);
  std::map<std::string, std::string> of_rank;
  std::istringstream lines(all.out);
  for (std::string line; std::getline(lines, line);)
    of_rank[line.substr(0, 4)] += line.substr(4) + "\n";
  EXPECT_EQ(of_rank["[0] "], alone.out);
  EXPECT_EQ(of_rank["[1] "], alone.out);
}

TEST_F(LaunchTest, OneRankIsThePlainProgram) {
  expect_refusal({"launch", "--ranks", "1", "--", "--config", "none.yaml"}, 2, "none.yaml");
  const auto running = start({"launch", "--ranks", "1", "--", "check"});
  EXPECT_EQ(variables_of(running->process())["BELLOWS_WORLD"], "1");
  EXPECT_TRUE(children_of(running->process()).empty());
  running->send(SIGTERM);
  EXPECT_EQ(running->end().code, 143);
}

TEST_F(LaunchTest, ReportsTheExitCodeOfTheProgram) {
  const Ended ended = run({"launch", "--ranks", "3", "--", "--config", "none.yaml"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("none.yaml"), HasSubstr("trainer: launch: rank "),
                               HasSubstr(" ended first, with exit 2 (usage); ")));
}

TEST_F(LaunchTest, TellsEachRankItsPlace) {
  const auto running = start({"launch", "--ranks", "2", "--", "check"});
  std::map<std::string, std::map<std::string, std::string>> ranks;
  for (const pid_t pid : wait_for_children(running->process(), 2)) {
    const auto variables = variables_of(pid);
    ranks[variables.at("BELLOWS_RANK")] = variables;
  }
  ASSERT_EQ(ranks.size(), 2u);
  for (auto& [rank, variables] : ranks) {
    EXPECT_EQ(variables["BELLOWS_LOCAL_RANK"], rank);
    EXPECT_EQ(variables["BELLOWS_WORLD"], "2");
    EXPECT_EQ(variables["BELLOWS_LOCAL_WORLD"], "2");
    EXPECT_EQ(variables["BELLOWS_HOST"], "127.0.0.1");
    EXPECT_EQ(variables["BELLOWS_ATTEMPT"], "0");
    EXPECT_EQ(variables["BELLOWS_TOKEN"].size(), 32u);
    EXPECT_GT(std::stoi(variables["BELLOWS_PORT"]), 1023);
    for (const char* name : {"BELLOWS_PORT", "BELLOWS_TOKEN"})
      EXPECT_EQ(variables[name], ranks["0"][name]);
  }
}

TEST_F(LaunchTest, TellsTheRanksOfAnotherMachineTheirPlace) {
  const auto running = start({"launch", "--ranks", "2", "--nodes", "3", "--node-rank", "1",
                              "--host", "10.0.0.7", "--port", "5000", "--", "check"},
                             [] {
                               setenv("BELLOWS_TOKEN", "secret", 1);
                               setenv("BELLOWS_ATTEMPT", "4", 1);
                             });
  const auto children = wait_for_children(running->process(), 2);
  ASSERT_EQ(children.size(), 2u);
  std::set<std::string> ranks;
  for (const pid_t pid : children) {
    auto variables = variables_of(pid);
    ranks.insert(variables["BELLOWS_RANK"] + " " + variables["BELLOWS_LOCAL_RANK"]);
    EXPECT_EQ(variables["BELLOWS_WORLD"], "6");
    EXPECT_EQ(variables["BELLOWS_HOST"], "10.0.0.7");
    EXPECT_EQ(variables["BELLOWS_PORT"], "5000");
    EXPECT_EQ(variables["BELLOWS_TOKEN"], "secret");
    EXPECT_EQ(variables["BELLOWS_ATTEMPT"], "4");
  }
  EXPECT_THAT(ranks, testing::ElementsAre("2 0", "3 1"));
}

TEST_F(LaunchTest, NoRankOutlivesAProgramThatIsKilled) {
  const auto running = start({"launch", "--ranks", "3", "--output", "all", "--", "check"});
  const auto ranks = wait_for_children(running->process(), 3);
  ASSERT_EQ(ranks.size(), 3u);
  for (const pid_t rank : ranks) variables_of(rank);  // once exec has happened
  running->send(SIGKILL);
  EXPECT_EQ(running->end().code, 137);
  for (const pid_t rank : ranks) EXPECT_EQ(signal_that_ended(rank), SIGKILL);
}

TEST_F(LaunchTest, SigtermOfTheProgramEndsItsRanks) {
  const auto running = start({"launch", "--ranks", "2", "--", "check"});
  const auto ranks = wait_for_children(running->process(), 2);
  running->send(SIGTERM);
  EXPECT_EQ(running->end().code, 143);
  for (const pid_t rank : ranks) EXPECT_TRUE(is_gone(rank));
}

// As systemd does it for a service, for example.
TEST_F(LaunchTest, ASignalToEveryProcessKeepsTheLastCheckpoint) {
  const auto running = start_two_ranks();
  for (const pid_t rank : children_of(running->process())) kill(rank, SIGTERM);
  usleep(2000);  // so that the two signals do not become one
  running->send(SIGTERM);
  expect_orderly_stop(*running);
}

// `timeout` signals its child, and then the process group.
TEST_F(LaunchTest, TwoSignalsWithinATenthOfASecondAreOneRequest) {
  const auto running = start_two_ranks();
  running->send(SIGTERM);
  running->send(SIGTERM);
  expect_orderly_stop(*running);
}

TEST_F(LaunchTest, ASignalToOneRankStopsAll) {
  const auto running = start_two_ranks();
  kill(children_of(running->process()).back(), SIGTERM);
  expect_orderly_stop(*running);
}

TEST_F(LaunchTest, RefusesWhatCannotWork) {
  for (const Args& missing : {Args{}, {"--config", "x.yaml"}, {"train.epochs=1"}}) {
    Args args = {"launch", "--ranks", "2"};
    args.insert(args.end(), missing.begin(), missing.end());
    expect_refusal(args, 2, "launch: no arguments for the ranks; write them after --, as in");
  }
  expect_refusal({"launch", "--ranks", "2", "--a", "b", "--", "check"}, 2,
                 "unexpected: --a b; see");
  expect_refusal({"launch", "--ranks", "2", "--"}, 2, "launch: no arguments for the ranks");
  expect_refusal({"launch", "--", "check"}, 2, "--ranks is required");
  expect_refusal({"launch", "--ranks", "0", "--", "check"}, 2, "--ranks");
  expect_refusal({"launch", "--ranks", "2", "--node-rank", "1", "--", "check"}, 2,
                 "--node-rank 1 of 1 machines");
  expect_refusal({"launch", "--ranks", "2", "--host", "no such host", "--", "check"}, 2,
                 "launch: --host 'no such host': ");
  Args nodes = {"launch", "--ranks", "2", "--nodes", "2"};
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"--node-rank", "1"}, {"--host", "10.0.0.7"}, {"--port", "5000"}}) {
    Args args = nodes;
    args.insert(args.end(), {"--", "check"});
    expect_refusal(args, 2, "launch: --nodes needs " + name);
    nodes.insert(nodes.end(), {name, value});
  }
  nodes.insert(nodes.end(), {"--", "check"});
  expect_refusal(nodes, 2, "BELLOWS_TOKEN");
}

// ---- the port

TEST(ReservedPort, IsThereForAServerThatKnowsIt) {
  const ReservedPort reserved;
  EXPECT_NE(ReservedPort().number(), reserved.number());
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(reserved.number()));
  const auto bind_it = [&](int reuse) {
    const Descriptor server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    setsockopt(server.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse));
    return bind(server.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
           listen(server.get(), 1) == 0;
  };
  EXPECT_TRUE(bind_it(1));
  EXPECT_FALSE(bind_it(0));
}
