// Signals at random and at given moments of a real run. BELLOWS_SIGNALS=2000 sends that many of
// each kind.
#include "trainer/run/signals.h"
#include <chrono>
#include <csignal>
#include <fstream>
#include <random>
#include <set>
#include "core/base/check.h"
#include "core/tensor/safetensors.h"
#include "tests/place.h"
#include "tests/trainer/program.h"

using namespace bellows;
namespace fs = std::filesystem;

static int signals_to_send() {
  const char* const count = std::getenv("BELLOWS_SIGNALS");
  return count ? std::atoi(count) : 10;
}

// Returns that mask of signals out of the /proc/PID/status of a process or a thread.
static uint64_t mask(const fs::path& task, const std::string& name) {
  std::ifstream lines(task / "status");
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(name + ":")) return std::stoull(line.substr(name.size() + 1), nullptr, 16);
  return 0;
}

// True once the process blocks signals. Before, in the dynamic linker, one would end it.
static bool blocks_signals(pid_t process) { return mask(cat("/proc/", process), "SigBlk") != 0; }

class SignalsTest : public Program {
 protected:
  // LeNet on one thread, 32 updates an epoch.
  static Args lenet(int epochs, const Args& more = {}) {
    return with({"train", "--config", source_dir() + "/configs/lenet.yaml",
                 "data={train_size: 2048, test_size: 64}", cat("train.epochs=", epochs),
                 "eval.every=0", "log={every: 16, tensorboard: false}"},
                more);
  }
  static void on_one_thread() { setenv("OMP_NUM_THREADS", "1", 1); }
  void sleep_up_to(int milliseconds) { usleep(random_() % (1000 * milliseconds)); }

  std::mt19937 random_{7};
};

TEST_F(SignalsTest, AreBlockedInEveryThreadAndHaveNoHandler) {
  const auto running = start(tiny({"train.epochs=1000000", "toggles={num_workers: 2}"}));
  ASSERT_TRUE(running->says("iter: 2/4"));
  uint64_t taken = 0;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU})
    taken |= uint64_t{1} << (signal - 1);
  std::multiset<std::string> threads;
  for (const auto& task : fs::directory_iterator(cat("/proc/", running->process(), "/task"))) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    threads.insert(name);
    if (name == "signals" || name.empty()) continue;  // it waits for them, or has ended meanwhile
    EXPECT_EQ(mask(task.path(), "SigBlk") & taken, taken) << name;
    EXPECT_EQ(mask(task.path(), "SigCgt") & taken, 0u) << name;
  }
  EXPECT_EQ(threads.count("signals"), 1u);
  EXPECT_GE(threads.size(), 4u);  // main, signals, two workers
  running->send(SIGTERM);
  EXPECT_EQ(running->end().code, 143);
}

TEST_F(SignalsTest, APauseIsNoTimeoutOfTheWorkers) {
  for (const char* rings : {"on", "off"}) {
    const auto running =
        start(tiny({cat("toggles={num_workers: 1, ring_queues: ", rings, "}"),
                    "data={name: digits, train_size: 64, test_size: 16, batch_size: 16, "
                    "timeout_s: 0.5, sim_latency_us: 300000}",
                    "train.epochs=1", "log={every: 1, tensorboard: false}"}));
    ASSERT_TRUE(running->says("iter: 1/4"));
    running->send(SIGSTOP);
    std::this_thread::sleep_for(std::chrono::seconds(1));
    running->send(SIGCONT);
    const Ended ended = running->end();
    EXPECT_EQ(ended.code, 0) << ended.err;
  }
}

// Each process is interrupted and the next one resumes, until one reaches the end of the run.
TEST_F(SignalsTest, InterruptedAnywhereItResumesToTheSameHash) {
  const std::string whole = hash_in(run(lenet(12), on_one_thread).out);
  ASSERT_EQ(whole.size(), 8u);
  int sent = 0, chains = 0;
  while (sent < signals_to_send() && !HasFailure()) {
    const auto running = start(lenet(12, {"--resume"}), on_one_thread);
    if (random_() % 8) running->says("epoch: ");  // else during its start
    sleep_up_to(40);
    const int signal = random_() % 2 ? SIGINT : SIGTERM;
    running->send(signal);
    const Ended ended = running->end();
    if (ended.code == 0) {  // it was too late
      EXPECT_EQ(hash_in(ended.out), whole);
      fs::remove_all(folder_ / "runs");
      ++chains;
      continue;
    }
    ++sent;
    EXPECT_EQ(ended.code, 128 + signal) << "signal " << sent << ": " << ended.err;
    EXPECT_EQ(ended.err, "");
  }
  EXPECT_EQ(hash_in(run(lenet(12, {"--resume"}), on_one_thread).out), whole);
  RecordProperty("signals", sent);
  RecordProperty("chains", chains + 1);
}

TEST_F(SignalsTest, RequestedCheckpointsChangeNothing) {
  const std::string whole = hash_in(run(lenet(5, {"--run-dir", "whole"}), on_one_thread).out);
  for (int runs = 0; runs < (signals_to_send() + 9) / 10 && !HasFailure(); ++runs) {
    fs::remove_all(folder_ / "runs");
    const auto running = start(lenet(5), on_one_thread);
    while (!blocks_signals(running->process())) usleep(500);
    if (runs % 2) running->says("epoch: ");
    for (int i = 0; i < 10; ++i) {
      sleep_up_to(10);
      running->send(SIGUSR1);
    }
    const Ended ended = running->end();
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(hash_in(ended.out), whole);
    EXPECT_THAT(ended.out, HasSubstr("saved runs/lenet/checkpoints/step_"));
  }
}

TEST_F(SignalsTest, OutsideOfTrainingTheDefaultActionFollows) {
  const auto starting = start(tiny({"data={name: digits, train_size: 400000}"}));
  usleep(100000);
  starting->send(SIGINT);
  EXPECT_EQ(starting->end().code, 128 + SIGINT);
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
  // Ignores SIGHUP, as under nohup.
  const auto ignoring = start(tiny({"data={name: digits, train_size: 20000}", "train.epochs=1"}),
                              [] { signal(SIGHUP, SIG_IGN); });
  usleep(50000);
  ignoring->send(SIGHUP);
  EXPECT_EQ(ignoring->end().code, 0);
}

// ---- at a given moment

// Slow enough for a signal to arrive during training.
static const std::string kSlow = "data.sim_latency_us=50000";  // 50 ms per batch

TEST_F(SignalsTest, ASignalAfterAFailedSaveDoesNotPromiseACheckpoint) {
  const auto stopped = [this](const Args& more) {
    const Args args = tiny({kSlow, "toggles={async_checkpoint: off}",
                            "ckpt={every: 0, on_error: warn, retries: 0}", "train.epochs=100"});
    const Ended ended = run_until("iter: 2/4", SIGTERM, with(args, more), [] {
      const rlimit bytes = {16384, 16384};
      setrlimit(RLIMIT_FSIZE, &bytes);
    });
    EXPECT_EQ(ended.code, 143) << ended.err;
    return ended.out;
  };
  EXPECT_THAT(stopped({}), AllOf(HasSubstr("stopped by SIGTERM after step "),
                                 HasSubstr("; the last save failed, and there is no checkpoint to "
                                           "continue from\n"),
                                 Not(HasSubstr("--resume"))));
  run(tiny({"--overwrite", "ckpt={every: 0}"}));
  EXPECT_THAT(stopped({"--resume"}),
              HasSubstr("; the last save failed; --resume continues from an earlier checkpoint\n"));
}

TEST_F(SignalsTest, ASignalDoesNotWaitForData) {
  for (const char* queue : {"on", "off"}) {
    const auto running =
        start(tiny({"data.sim_latency_us=8000000",
                    cat("toggles={num_workers: 1, ring_queues: ", queue, "}"), "--overwrite"}));
    ASSERT_TRUE(running->says("run folder"));
    running->send(SIGTERM);
    const auto begin = std::chrono::steady_clock::now();
    const Ended ended = running->end();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
    EXPECT_EQ(ended.code, 143) << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("stopped by SIGTERM after step 0"));
  }
}

// A second signal ends the program at once, unless both are one request: within 0.1 s (`timeout`
// signals its child and then the process group), SIGXCPU (the system repeats it every second once
// the CPU time is used up), and one of the parent beside one of another process.
TEST_F(SignalsTest, ASecondSignalEndsItAtOnceUnlessItIsTheSameRequest) {
  const struct {
    int signal, pause_ms;
    bool of_another;
    int code;
    bool saves;
  } cases[] = {{SIGINT, 200, false, 130, false},
               {SIGTERM, 0, false, 143, true},
               {SIGXCPU, 200, false, 143, true},
               {SIGTERM, 200, true, 143, true}};
  for (const auto& [signal, pause_ms, of_another, code, saves] : cases) {
    SCOPED_TRACE(cat("signal ", signal, ", ", pause_ms, " ms, of another: ", of_another));
    const auto running =
        start(tiny({"data.sim_latency_us=1000000", "toggles={num_workers: 0}", "ckpt={every: 0}",
                    "log={every: 1}", "train.epochs=100", "--overwrite"}));
    ASSERT_TRUE(running->says("iter: 1/4"));  // the next batch takes 1 s
    running->send(signal);
    usleep(1000 * pause_ms);
    if (of_another)
      EXPECT_EQ(std::system(cat("kill -TERM ", running->process()).c_str()), 0);
    else
      running->send(signal);
    const Ended ended = running->end();
    EXPECT_EQ(ended.code, code) << ended.err;
    EXPECT_EQ(ended.out.find("continue with --resume") != ended.out.npos, saves) << ended.out;
    EXPECT_EQ(checkpoints().size(), saves ? 1u : 0u);
    for (const std::string& name : checkpoints())
      EXPECT_NO_THROW(read_safetensors(folder_ / "runs/run/checkpoints" / name)) << name;
  }
}

TEST_F(SignalsTest, ASignalLeavesAnEvaluationToTheResumedRun) {
  const Args args =
      tiny({"data={name: digits, train_size: 16, test_size: 160, batch_size: 16, "
            "sim_latency_us: 100000}"});
  const auto running = start(args);
  ASSERT_TRUE(running->says("epoch: 2, iter: 1/1"));
  usleep(300000);  // the evaluation takes a second
  running->send(SIGTERM);
  const Ended ended = running->end();
  EXPECT_EQ(ended.code, 143) << ended.err;
  EXPECT_THAT(ended.out,
              AllOf(HasSubstr("continue with --resume"), Not(HasSubstr("eval: epoch: 2"))));
  const std::string resumed = run(with(args, {"--resume"})).out;
  EXPECT_THAT(resumed, AllOf(HasSubstr("eval: epoch: 2"), Not(HasSubstr("eval: epoch: 1"))));
  const std::string whole = run(with(args, {"--overwrite"})).out;
  EXPECT_EQ(hash_in(resumed), hash_in(whole));
  const auto last_eval = [](const std::string& out) {
    const size_t at = out.find("eval: epoch: 2");
    return out.substr(at, out.find('\n', at) - at);
  };
  EXPECT_EQ(last_eval(resumed), last_eval(whole));
}

TEST_F(SignalsTest, SavesNowAndBearsAClosedTerminal) {
  for (const int signal : {SIGUSR1, SIGUSR2}) {
    const auto running = start(tiny({kSlow, "ckpt={every: 0}", "train.epochs=100", "--overwrite"}));
    ASSERT_TRUE(running->says("iter: 2/4"));
    running->send(SIGHUP);
    running->send(signal);
    EXPECT_TRUE(running->says("saved runs/run/checkpoints/step_"));
    running->send(SIGTERM);
    EXPECT_EQ(running->end().code, 143);
  }
}
