// Ranks as processes: outputs, failures, signals, kills. Most ranks are shell scripts, which signal
// this process by $PPID; the others are the real program, also started by torchrun, mpirun and srun
// where they are installed. BELLOWS_TORCHRUN names a torchrun that is not in PATH.
#include <sys/prctl.h>
#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <fstream>
#include <map>
#include <sstream>
#include "core/base/check.h"
#include "tests/place.h"
#include "tests/trainer/program.h"
#include "tests/trainer/terminal.h"
#include "trainer/launch/supervise.h"

using namespace bellows;
namespace fs = std::filesystem;
using testing::_;

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

// Expects that exit code and that text on stderr of the launcher.
void expect_end(int code, const testing::Matcher<std::string>& err, const Scripts& scripts,
                const SuperviseOptions& options = {}) {
  const Ended ended = supervised(scripts, options);
  EXPECT_EQ(ended.code, code) << testing::PrintToString(scripts);
  EXPECT_THAT(ended.err, err);
}

const char* const kWait = "while :; do sleep 0.02; done";  // traps run between the sleeps
const SuperviseOptions kAll = {.all_output = true};

std::vector<pid_t> wait_for_children(pid_t parent, size_t count) {
  std::vector<pid_t> children;
  eventually([&] { return (children = children_of(parent)).size() >= count; });
  return children;
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
};

}  // namespace

// ---- output

// Ctrl-C of a terminal reaches a process group. In the launcher's, a rank would receive it twice.
TEST_F(LaunchTest, Rank0PrintsUnchangedAndOthersNothingWithoutInputInTheirOwnGroups) {
  const Ended ended = supervised({"printf 'a\\r\\033[Kb'; echo c >&2", "echo d; echo e >&2"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.out, "a\r\033[Kb");
  EXPECT_EQ(ended.err, "c\n");
  expect_end(0, _,
             {"[ $(readlink /proc/$$/fd/0) = /dev/null ]",
              "read pid name state parent group rest < /proc/$$/stat; [ $group = $$ ]"});
}

TEST_F(LaunchTest, AllRanksPrintWholeLinesWithTheirNumbers) {
  const Ended ended = supervised({"printf 'left '; sleep 0.1; echo right",
                                  "echo out; echo err >&2; printf '\\033[2J\\nunfinished'"},
                                 kAll);
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.out, AllOf(HasSubstr("[0] left right\n"), HasSubstr("[1] out\n"),
                               HasSubstr("[1] \\x1b[2J\n"), HasSubstr("[1] unfinished\n")))
      << "a terminal obeys nothing that a rank prints";
  EXPECT_EQ(ended.err, "[1] err\n");
}

// ---- failures

TEST_F(LaunchTest, TheFirstFailureIsTheCauseAndEndsTheOthers) {
  const std::string forever = "exec sleep 100";
  expect_end(3,
             AllOf(HasSubstr("[2] why\n"), HasSubstr("rank 2 ended first, with exit 3 (data); ")),
             {forever, forever, "echo why >&2; exit 3"});
  // The exit code of a rank that a signal ended is that of a shell.
  expect_end(128 + SIGSEGV, HasSubstr("launch: rank 0 ended first, by signal 11 (Segm"),
             {"kill -SEGV $$", forever});
  expect_end(128 + SIGKILL,
             AllOf(HasSubstr("rank 1 ended first, by signal 9"), HasSubstr("memory")),
             {forever, "kill -KILL $$"});
  // Exit 7 gives way to the failure that caused it, not to the signals of the launcher.
  expect_end(3, HasSubstr("rank 1 ended first, with exit 3"),
             {"exit 7", "sleep 0.2; exit 3", forever});
  expect_end(128 + SIGKILL, _, {"exit 7", "sleep 0.2; kill -KILL $$"});
  expect_end(7, HasSubstr("rank 1 ended first, with exit 7 (distributed)"), {forever, "exit 7"});
  // Rank 0 writes the files, and the others end with its code.
  expect_end(8, "launch: rank 0 ended first, with exit 8 (storage); its last lines are above",
             {"sleep 0.2; exit 8", "echo with rank 0; exit 8"});
}

TEST_F(LaunchTest, RanksThatRunOnAfterAnotherHasEndedAreEnded) {
  const std::string deaf = cat("trap '' TERM; ", kWait);
  for (const std::string& stuck : {std::string("kill -STOP $$"), deaf})
    expect_end(7, StartsWith("launch: rank 1 was stopped or stuck: it ran on for 0.3 s"),
               {"exit 0", stuck}, {.grace_s = 0.2, .timeout_s = 0.3});
  expect_end(0, _, {"exit 0", "sleep 0.2"}, {.timeout_s = 10});
  expect_end(143, HasSubstr("rank 1 stopped, but another one did not, even after 0.3 s"),
             {deaf, "exit 143"}, {.grace_s = 0.3});
}

TEST_F(LaunchTest, TheLastTwentyLinesOfTheCauseArePrinted) {
  const Ended ended = supervised(
      {"exec sleep 100", "i=0; while [ $i -lt 30 ]; do i=$((i+1)); echo $i; done; exit 9"});
  EXPECT_EQ(ended.code, 9);
  EXPECT_THAT(ended.err, StartsWith("[1] 11\n[1] 12\n"));
  EXPECT_EQ(std::ranges::count(ended.err, '\n'), 20);
  expect_end(3, "launch: rank 1 ended first, with exit 3 (data)", {"exec sleep 100", "exit 3"});
}

TEST_F(LaunchTest, NoProcessOutlivesAFailureOrItsRank) {
  const std::string stubborn =
      cat("trap '' TERM; echo $$ > ", file("pid"), "; touch ", file("ready"), "; ", kWait);
  expect_end(3, _, {until("ready") + "exit 3", stubborn}, {.grace_s = 0.3});
  EXPECT_TRUE(is_gone(std::stoi(read("pid"))));
  // Without SIGCONT a stopped rank would end after the grace time only.
  const std::string stopped = cat("trap 'touch ", file("term"), "; exit 0' TERM; touch ",
                                  file("soon"), "; kill -STOP $$; ", kWait);
  expect_end(3, _, {until("soon") + "sleep 0.1; exit 3", stopped}, {.grace_s = 1e6});
  EXPECT_TRUE(fs::exists(file("term")));
  expect_end(0, _, {cat("sleep 100 & echo $! > ", file("pid"))});
  EXPECT_EQ(signal_that_ended(std::stoi(read("pid"))), SIGKILL);
  std::vector<RankCommand> ranks = shells({"exec sleep 20"});
  ranks.push_back({1, {{"/no/such/program"}}});  // without a shell, which would end with 127 itself
  EXPECT_EQ(supervised_ranks(ranks).code, 127);
}

// ---- signals

TEST_F(LaunchTest, SignalsGoToAllRanks) {
  for (const char* signal : {"USR1", "HUP"}) {
    const std::string ready = cat("ready.", signal);
    const std::string trap = cat("trap 'exit 0' ", signal, "; ");
    expect_end(0, Not(HasSubstr("launch:")),
               {trap + until(ready) + "kill -" + signal + " $PPID; " + kWait,
                trap + "touch " + file(ready) + "; " + kWait});
  }
}

TEST_F(LaunchTest, AfterAStopSignalTheExitCodeIsThatOfTheRanks) {
  const auto stops = Not(HasSubstr("launch:"));  // a shell may report its own child
  const std::string trap = "trap 'exit 143' TERM; ", stubborn = "trap '' INT TERM; ";
  expect_end(143, stops,
             {cat(trap, until("ready"), "kill -TERM $PPID; ", kWait),
              cat("trap 'sleep 0.2; exit 143' TERM; touch ", file("ready"), "; ", kWait)});
  expect_end(130, _, {"kill -INT $PPID; exec sleep 100", "exec sleep 100"});
  expect_end(0, _,  // they had just trained to the end
             {cat("trap 'exit 0' TERM; kill -TERM $PPID; ", kWait)});
  expect_end(143, stops,  // they lost each other
             {cat("trap 'exit 7' TERM; ", until("lost"), "kill -TERM $PPID; ", kWait),
              cat("touch ", file("lost"), "; exec sleep 100")});
  expect_end(143, _,  // one was stopped
             {cat(trap, until("still"), "sleep 0.1; kill -TERM $PPID; ", kWait),
              cat(trap, "touch ", file("still"), "; kill -STOP $$; ", kWait)});
  expect_end(130, _,  // the second signal kills
             {stubborn + "while :; do kill -INT $PPID; sleep 0.02; done", stubborn + kWait});
}

// A second one would end the rank without its last checkpoint.
TEST_F(LaunchTest, ARankThatFailsAfterSigtermCausesNoSecondSigterm) {
  const std::string saves = cat("trap 'echo one >> ", file("terms"), "' TERM; touch ",
                                file("ready"), "; ", until("failed"), "sleep 0.3; exit 143");
  const std::string fails = cat("trap 'touch ", file("failed"), "; exit 8' TERM; ", until("ready"),
                                "kill -TERM $PPID; ", kWait);
  expect_end(8, HasSubstr("rank 1 ended first, with exit 8 (storage)"), {saves, fails});
  EXPECT_EQ(read("terms"), "one\n");
}

TEST_F(LaunchTest, AnAgreedStopIsNoFailureButOneAfterItIs) {
  const std::string later = cat("trap 'touch ", file("term"), "' TERM; sleep 0.3; exit ");
  expect_end(143, _, {later + "143", "exit 143"});
  expect_end(143, _, {later + "7", "exit 143"});  // it lost the one that had stopped
  expect_end(130, "", {later + "130", "exit 130"});
  EXPECT_FALSE(fs::exists(file("term")));  // nothing hurries a rank that stops
  expect_end(8, HasSubstr("rank 0 ended first, with exit 8 (storage)"),
             {"sleep 0.3; exit 8", "exit 143"});
  expect_end(128 + SIGSEGV, _, {"sleep 0.3; kill -SEGV $$", "exit 143"});
}

// ---- a terminal

TEST_F(LaunchTest, RanksMayWriteToATerminalInTheBackground) {
  const Terminal terminal;
  const auto running =
      start({"launch", "--ranks", "2", "--", "list", "verbs"}, terminal.in_child());
  const Ended ended = terminal.end(*running);
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.out, HasSubstr("launch"));
}

TEST_F(LaunchTest, CtrlCEndsTheRanks) {
  const Terminal terminal;
  const auto running = start({"launch", "--ranks", "2", "--", "check"}, terminal.in_child());
  const auto ranks = wait_for_children(running->process(), 2);
  terminal.type('\x03');
  EXPECT_EQ(terminal.end(*running).code, 130);
  for (const pid_t rank : ranks) EXPECT_TRUE(is_gone(rank));
}

// ---- the verb

TEST_F(LaunchTest, OneRankIsThePlainProgram) {
  expect_refusal({"launch", "--ranks", "1", "--", "--config", "none.yaml"}, 2, "none.yaml");
  const auto running = start({"launch", "--ranks", "1", "--", "check"});
  EXPECT_EQ(variables_of(running->process())["BELLOWS_WORLD"], "1");
  EXPECT_TRUE(children_of(running->process()).empty());
  running->send(SIGTERM);
  EXPECT_EQ(running->end().code, 143);
}

TEST_F(LaunchTest, TellsEachRankOfAMachineItsPlace) {
  using Variables = std::map<std::string, std::string>;
  const auto running = start({"launch", "--ranks", "2", "--nodes", "3", "--node-rank", "1",
                              "--host", "10.0.0.7", "--port", "5000", "--", "check"},
                             [] {
                               setenv("BELLOWS_TOKEN", "secret", 1);
                               setenv("BELLOWS_ATTEMPT", "4", 1);
                             });
  std::map<std::string, Variables> ranks;
  for (const pid_t pid : wait_for_children(running->process(), 2)) {
    const Variables variables = variables_of(pid);
    ranks[variables.at("BELLOWS_RANK")] = variables;
  }
  EXPECT_EQ(ranks.size(), 2u);
  for (const auto& [rank, local] : {std::pair("2", "0"), {"3", "1"}})
    for (const auto& [name, value] : Variables{{"LOCAL_RANK", local},
                                               {"LOCAL_WORLD", "2"},
                                               {"WORLD", "6"},
                                               {"HOST", "10.0.0.7"},
                                               {"PORT", "5000"},
                                               {"TOKEN", "secret"},
                                               {"ATTEMPT", "4"}})
      EXPECT_EQ(ranks[rank]["BELLOWS_" + name], value) << rank << " " << name;
}

TEST_F(LaunchTest, KeepsTheLastCheckpointHoweverARequestToStopArrives) {
  const std::function<void(RunningProgram&)> ways[] = {
      [](RunningProgram& running) {  // to every process, as systemd does it for a service
        for (const pid_t rank : children_of(running.process())) kill(rank, SIGTERM);
        usleep(2000);  // so that the two signals do not become one
        running.send(SIGTERM);
      },
      [](RunningProgram& running) {  // twice within 0.1 s, as `timeout` does it
        running.send(SIGTERM);
        running.send(SIGTERM);
      },
      [](RunningProgram& running) { kill(children_of(running.process()).back(), SIGTERM); }};
  for (size_t i = 0; i < std::size(ways); ++i) {
    const std::string folder = cat("run", i);
    const Args args =
        tiny({"data={name: digits, train_size: 64, test_size: 20, batch_size: 8, "
              "sim_latency_us: 20000}",
              "train.epochs=1000", "eval.every=0", "ckpt.every=0", "--run-dir", folder});
    const auto running = start(with({"launch", "--ranks", "2", "--"}, args),
                               [] { setenv("OMP_NUM_THREADS", "1", 1); });
    ASSERT_TRUE(running->says("epoch: 1, iter: 2"));
    ways[i](*running);
    const Ended ended = running->end();
    EXPECT_EQ(ended.code, 143) << i;
    EXPECT_EQ(ended.err, "");
    EXPECT_THAT(ended.out, HasSubstr("stopped by SIGTERM after step "));
    EXPECT_EQ(checkpoints(folder).size(), 1u);
  }
}

TEST_F(LaunchTest, RefusesWhatCannotWork) {
  const std::string none = "launch: no arguments for the ranks";
  for (const auto& [args, text] : std::vector<std::pair<Args, std::string>>{
           {{"--ranks", "2", "train.epochs=1"}, none + "; write them after --, as in"},
           {{"--ranks", "2", "--"}, none},
           {{"--ranks", "2", "--a", "b", "--", "check"}, "unexpected: --a b; see"},
           {{"--", "check"}, "--ranks is required"},
           {{"--ranks", "0", "--", "check"}, "--ranks"},
           {{"--ranks", "2", "--node-rank", "1", "--", "check"}, "--node-rank 1 of 1 machines"},
           {{"--ranks", "2", "--host", "no such host", "--", "check"}, "--host 'no such host': "}})
    expect_refusal(with({"launch"}, args), 2, text);
  Args nodes = {"launch", "--ranks", "2", "--nodes", "2"};
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"--node-rank", "1"}, {"--host", "10.0.0.7"}, {"--port", "5000"}}) {
    expect_refusal(with(nodes, {"--", "check"}), 2, "launch: --nodes needs " + name);
    nodes.insert(nodes.end(), {name, value});
  }
  expect_refusal(with(nodes, {"--", "check"}), 2, "BELLOWS_TOKEN");
}

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
