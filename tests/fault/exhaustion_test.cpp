// The real program when the system runs out of threads or memory: one line, the documented exit
// code, and a resume from the last checkpoint that gives the same bits.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cerrno>
#include "core/base/check.h"
#include "tests/fault/plant.h"
#include "tests/place.h"
#include "tests/trainer/program.h"

using namespace bellows;
namespace fs = std::filesystem;
using testing::HasSubstr;

#ifdef __SANITIZE_ADDRESS__
constexpr bool kAsan = true;
#else
constexpr bool kAsan = false;
#endif

class Exhaustion : public Program {
 protected:
  // Uses every kind of thread: the pool's, workers that are started for each epoch, and savers.
  static Args threaded(const Args& more = {}) {
    return with(tiny({"toggles={num_workers: 2, persistent_workers: off, thread_budget: off}",
                      "threads.threads=3", "ckpt.every_iters=4"}),
                more);
  }
  // Runs a program in which the nth call fails ("once"), or all from the nth on ("persist").
  Ended run_without(const char* call, const Args& args, int nth, const char* mode) {
    fs::remove(folder_ / "log");
    return run(args, [=, this] { plant(call, nth, mode, folder_ / "log", EAGAIN); });
  }
  static Args launched(const Args& args) { return with({"launch", "--ranks", "2", "--"}, args); }
  // The launcher and each rank write one; the launcher prints the cause's line again.
  static void expect_one_line_each(const Ended& ended) {
    EXPECT_THAT(ended.code, testing::AnyOf(0, 6)) << ended.err;
    EXPECT_LE(std::ranges::count(ended.err, '\n'), 3) << ended.err;
    EXPECT_THAT(ended.err, testing::Not(testing::AnyOf(HasSubstr("terminate called"),
                                                       HasSubstr("GLOO_SOCKET_IFNAME"))));
  }
  static std::function<void()> with_memory(double mib) {
    return [bytes = rlim_t(mib * (1 << 20))] {
      const rlimit limit = {bytes, bytes};
      setrlimit(RLIMIT_AS, &limit);
    };
  }
  bool failed() { return read("log").find("hit\n") != std::string::npos; }
  static std::string line_of(const std::string& err) {  // libgomp's begins with a newline
    return err.substr(err.find_first_not_of('\n'));
  }
};

TEST_F(Exhaustion, ThreadsThatFailEndInOneLineAndTheRunGoesOnLater) {
  const std::string whole = hash_in(run(threaded()).out);
  std::map<int, int> codes;
  for (const char* mode : {"persist", "once"}) {
    // 1 waits for signals, 2 and 3 check whether the pool can have its threads, 4 and 5 are the
    // pool.
    const int last = mode == std::string("once") ? 5 : 1000;
    for (int nth = 1; nth <= last; ++nth) {
      SCOPED_TRACE(cat(mode, " ", nth));
      fs::remove_all(folder_ / "runs");
      Ended ended = run_without("thread", threaded(), nth, mode);
      if (!failed()) {
        EXPECT_GT(nth, 8);  // workers and savers came after them
        break;
      }
      ++codes[ended.code];
      if (ended.code != 0) {
        ASSERT_EQ(ended.code, 6) << ended.err;
        const std::string line = line_of(ended.err);
        EXPECT_EQ(std::ranges::count(line, '\n'), 1) << ended.err;
        EXPECT_THAT(line, testing::ContainsRegex(
                              "[Nn]o thread|cannot start the thread|Thread creation failed"));
        ended = run(threaded({"--resume"}));
      }
      EXPECT_EQ(ended.code, 0) << ended.err;
      EXPECT_EQ(hash_in(ended.out), whole);
    }
  }
  EXPECT_GT(codes[0], 1);
  EXPECT_GT(codes[6], 4);
}

TEST_F(Exhaustion, APoolThatCannotHaveItsThreadsIsSmaller) {
  // 1 waits for signals, 2 to 7 check whether the pool can have its threads: for each a worker and
  // one of OpenMP's.
  const Ended ended = run_without(
      "thread", tiny({"threads.threads=4", "toggles={num_workers: 0, thread_budget: off}"}), 4,
      "once");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("lets this process start 1 of 3 compute threads"));
  EXPECT_THAT(ended.out, HasSubstr("threads: 2 of "));
}

TEST_F(Exhaustion, WithoutAThreadToSaveInTrainingWaitsForTheSave) {
  const Args args = tiny({"threads.threads=1", "toggles={num_workers: 0}", "ckpt.every_iters=2"});
  const Ended ended = run_without("thread", args, 2, "persist");
  EXPECT_EQ(ended.code, 0) << ended.err;
  const std::string warning = "warning: async_checkpoint: no thread or no memory to save in the ";
  const size_t at = ended.out.find(warning);
  EXPECT_NE(at, std::string::npos) << ended.out;
  EXPECT_EQ(ended.out.find(warning, at + 1), std::string::npos);
  EXPECT_THAT(checkpoints(), testing::Contains("step_00000008.safetensors"));
  fs::remove_all(folder_ / "runs");
  EXPECT_EQ(hash_in(run(args).out), hash_in(ended.out));
}

// One thread after the other: of signals, the store, Gloo's four, those of workers and of savers.
TEST_F(Exhaustion, RanksWithoutThreadsEndInOneLineEach) {
  std::map<int, int> codes;
  for (int nth = 2; !codes[0]; ++nth) {
    SCOPED_TRACE(nth);
    ASSERT_LT(nth, 60);
    const Ended ended = run_without("thread",
                                    launched(tiny({"toggles={num_workers: 2}", "threads.threads=1",
                                                   "train.epochs=1", "--overwrite"})),
                                    nth, "persist");
    expect_one_line_each(ended);
    ++codes[ended.code];
  }
  EXPECT_GT(codes[6], 4);
}

TEST_F(Exhaustion, RanksWithoutMemoryDoNotBlameTheNetwork) {
  if (kAsan) GTEST_SKIP() << "its shadow memory takes all address space";
  std::map<int, int> codes;
  for (double mib = 100; mib < 2000 && !codes[0]; mib *= 1.2) {
    SCOPED_TRACE(cat(mib, " MiB"));
    const Ended ended = run(launched(threaded({"--overwrite"})), with_memory(mib));
    ++codes[ended.code];
    if (ended.code != 127) expect_one_line_each(ended);
  }
  EXPECT_GT(codes[6], 2);
}

// Raises the limit of address space until the program starts, and until it trains.
TEST_F(Exhaustion, MemoryThatFailsEndsInOneLineAndTheRunGoesOnLater) {
  if (kAsan) GTEST_SKIP() << "its shadow memory takes all address space";
  const std::string whole = hash_in(run(threaded()).out);
  std::map<int, int> codes;
  for (double mib = 48; codes[0] < 2; mib *= 1.05) {
    SCOPED_TRACE(cat(mib, " MiB"));
    ASSERT_LT(mib, 4096);
    fs::remove_all(folder_ / "runs");
    if (run({"--version"}, with_memory(mib)).code != 0)
      continue;  // too little for linker and CUDA runtime
    Ended ended = run(threaded(), with_memory(mib));
    ++codes[ended.code];
    if (ended.code != 0) {
      EXPECT_EQ(ended.code, 6) << ended.err;
      EXPECT_EQ(std::ranges::count(line_of(ended.err), '\n'), 1) << ended.err;
      ended = run(threaded({"--resume"}));
    }
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(hash_in(ended.out), whole);
  }
  EXPECT_GT(codes[6], 1);
}

// An exception in a function that lets none out would abort: the destructors of JSON allocate.
TEST_F(Exhaustion, WithoutAnyMemoryTheRunEndsInOneLine) {
  if (kAsan) GTEST_SKIP() << "its runtime has a malloc of its own";
  for (const int nth : {20000, 60000, 100000, 140000}) {
    SCOPED_TRACE(nth);
    const Ended ended = run_without("malloc", threaded({"--overwrite"}), nth, "persist");
    EXPECT_TRUE(failed());
    EXPECT_EQ(ended.code, 6) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("emory"));
    EXPECT_EQ(std::ranges::count(line_of(ended.err), '\n'), 1) << ended.err;
  }
}

// The images have 784 MB.
TEST_F(Exhaustion, ADataSetThatDoesNotFitIsNoMatterOfTheBatch) {
  if (kAsan) GTEST_SKIP() << "its shadow memory takes all address space";
  expect_refusal(tiny({"data={name: digits, train_size: 1000000, test_size: 20, batch_size: 16}"}),
                 6, "out of memory; free some, or raise the limit (ulimit -v)", with_memory(700));
}
