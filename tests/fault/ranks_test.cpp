// Faults of a rank at named points of a run. The other rank ends within dist.timeout_s and two
// seconds with one line that names the rank, and the last checkpoint continues to the same
// parameters.
#include <gmock/gmock.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <future>
#include <iostream>
#include <list>
#include <random>
#include "core/base/check.h"
#include "dist/rendezvous/sockets.h"
#include "tests/fault/plant.h"
#include "tests/place.h"
#include "tests/trainer/processes.h"
#include "tests/trainer/rank_programs.h"

using namespace bellows;
namespace fs = std::filesystem;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

namespace {

constexpr double kTimeoutS = 4;
const std::vector<std::string> kUsual = {"ckpt.every_iters=2", cat("dist.timeout_s=", kTimeoutS)};
// In which a rank has to end: dist.timeout_s, two seconds to find the cause, and six for a machine
// that runs other tests.
constexpr double kLimitS = kTimeoutS + 2 + 6;

// A call of the shim. `place` is what the error of the other rank has to name.
struct Point {
  const char* name;
  const char* call;
  int nth;
  const char* place;
};

// 8 updates and 2 evaluations; a checkpoint after every second update.
const Point kPoints[] = {{"arrival", "connect", 1, "rendezvous: "},
                         {"mesh", "connect", 3, ""},  // of Gloo
                         {"forward", "forward", 6, "step "},
                         {"bucket", "bucket", 23, "step 6, bucket 0 ("},
                         {"checkpoint", "rename", 4, "step "},
                         // or "step 4, checkpoint 2", if rank 1 has not yet seen its end
                         {"evaluation", "evaluation", 1, "step 4, "},
                         {"exit", "exit", 1, ""}};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class FaultyRanks : public RankPrograms {
 protected:
  std::string program() const override { return FAULT_TRAINER; }

  static Args training(const std::string& folder, const Args& more = kUsual) {
    return tiny(with({"model={name: layers, layers: [flatten, {name: linear, out: 10}, fault]}",
                      "data={name: digits, train_size: 64, test_size: 20, batch_size: 8}",
                      "--run-dir", folder, "--resume"},
                     more));
  }
  // Gloo connects the ranks only if they share no memory, and the shim sees half of a bucket only
  // on a socket. The other points have memory in common.
  static Args training_to(const Point& point) {
    const bool over_tcp = point.name == std::string("mesh") || point.name == std::string("bucket");
    const Args tcp = {"dist.backend=gloo", "dist.shared_memory=false"};
    return with(training(point.name), over_tcp ? tcp : Args());
  }
  Running start_pair(
      const Args& args, const InRank& in_rank = [](int) {}) {
    return start_ranks(
        2, [&](int) { return args; }, in_rank);
  }
  static std::string hash_of(const Running& ranks) {
    const std::vector<Ended> all = ends(ranks);
    for (const Ended& ended : all) EXPECT_EQ(ended.code, 0) << ended.err;
    for (const Ended& ended : all) EXPECT_EQ(ended.err, "");
    return hash_in(all[0].out);
  }
  std::string hash_of_pair(const Args& args) { return hash_of(start_pair(args)); }

  struct Job {
    const Point* point;
    Running ranks;
    Clock::time_point hit = {};
    std::future<std::pair<Ended, double>> other =
        {};  // and the seconds that it took after the fault
  };
  Job start_job(const Point& point, int victim, const std::string& mode) {
    const fs::path log = folder_ / cat(point.name, ".log");
    Job job{&point, start_pair(training_to(point), [&](int rank) {
              if (rank == victim) plant(point.call, point.nth, mode, log);
            })};
    for (int i = 0; i < 4000 && read(log).find("hit\n") == std::string::npos; ++i) usleep(5000);
    job.hit = Clock::now();
    job.other = std::async(std::launch::async, [&other = *job.ranks[1 - victim], hit = job.hit] {
      Ended ended = other.end();
      return std::pair(std::move(ended), seconds_since(hit));
    });
    return job;
  }
  // Jobs begin one after the other, when the one before has come to its fault, and end together.
  void expect_ends(int victim, const std::string& mode);
};

void FaultyRanks::expect_ends(int victim, const std::string& mode) {
#ifdef __SANITIZE_ADDRESS__
  if (mode == "stop") GTEST_SKIP() << "takes a minute; dist/gloo_test.cpp stops ranks, too";
#endif
  const std::string whole = hash_of_pair(training("whole"));
  std::vector<Job> jobs;
  for (const Point& point : kPoints)
    if (victim == 0 || point.call != std::string("rename"))  // rank 0 writes the checkpoints
      jobs.push_back(start_job(point, victim, mode));
  for (Job& job : jobs) {
    SCOPED_TRACE(job.point->name);
    const auto [other, took_s] = job.other.get();
    EXPECT_LT(took_s, kLimitS) << other.err;
    if (job.point->name == std::string("exit")) {
      EXPECT_EQ(other.code, 0) << other.err;  // nothing is left to do with the other rank
    } else {
      EXPECT_EQ(other.code, 7) << other.err;
      EXPECT_THAT(other.err, AllOf(testing::StartsWith(cat("trainer: rank ", 1 - victim, ": ")),
                                   HasSubstr(cat("rank ", victim)), HasSubstr(job.point->place)));
      EXPECT_EQ(std::ranges::count(other.err, '\n'), 1) << other.err;
    }
    if (mode == "kill" && job.point->name == std::string("forward")) {  // the last collectives
      EXPECT_THAT(read(cat("forward/flight_recorder.", 1 - victim, ".txt")), HasSubstr("step "));
    }
    RunningProgram& its = *job.ranks[victim];
    if (mode == "kill") {
      EXPECT_EQ(its.end().code, 128 + SIGKILL);
    } else {
      const Clock::time_point continued = Clock::now();
      its.send(SIGCONT);
      EXPECT_THAT(its.end().code, AnyOf(0, 7));
      EXPECT_LT(seconds_since(continued), kLimitS);
    }
    EXPECT_EQ(hash_of_pair(training_to(*job.point)), whole);
  }
}

}  // namespace

// ---- at points of a run

TEST_F(FaultyRanks, EndWhenRank0IsKilled) { expect_ends(0, "kill"); }
TEST_F(FaultyRanks, EndWhenRank1IsKilled) { expect_ends(1, "kill"); }
TEST_F(FaultyRanks, EndWhenRank0Hangs) { expect_ends(0, "stop"); }
TEST_F(FaultyRanks, EndWhenRank1Hangs) { expect_ends(1, "stop"); }

// The files of the run folder come before the first update, the checkpoint at the end.
TEST_F(FaultyRanks, WaitForFilesThatTakeLongerThanTheTimeout) {
  const auto run_of = [&](const std::string& async) {
    return start_pair(training("async_" + async, {"dist.timeout_s=2", "ckpt.every=0",
                                                  cat("toggles={async_checkpoint: ", async, "}")}),
                      [&](int rank) {
                        setenv("FAULT_MS", "2500", 1);
                        if (rank == 0) plant("rename", 1, "slow", folder_ / ("log." + async));
                      });
  };
  const Running sync = run_of("off"), async = run_of("on");
  EXPECT_EQ(hash_of(sync), hash_of(async));
  for (const char* run : {"async_off", "async_on"}) EXPECT_EQ(checkpoints(run).size(), 1u);
}

TEST_F(FaultyRanks, EndWithTheCauseIfTheFirstFilesCannotBeWritten) {
  const std::vector<Ended> all = ends(start_pair(training("full"), [&](int rank) {
    if (rank == 0) plant("fsync", 1, "persist", folder_ / "log", ENOSPC, "full");
  }));
  EXPECT_EQ(all[0].code, 8);
  EXPECT_EQ(all[1].code, 7);
  EXPECT_THAT(all[1].err, HasSubstr("rank 0: full/plan.yaml: fsync: No space left"));
}

// The others have given up meanwhile, and it must not name them as the cause.
TEST_F(FaultyRanks, ARankThatGoesOnAfterAStopIsItselfTheCause) {
  const Running ranks = start_pair(training("run", {"dist.timeout_s=2"}), [&](int rank) {
    if (rank == 0) plant("forward", 6, "stop", folder_ / "log");
  });
  EXPECT_EQ(ranks[1]->end().code, 7);
  ranks[0]->send(SIGCONT);
  const Ended stopped = ranks[0]->end();
  EXPECT_EQ(stopped.code, 7);
  EXPECT_THAT(stopped.err, AllOf(HasSubstr("this rank did not come within 2 s; "),
                                 testing::Not(HasSubstr("rank 1"))));
}

// Rank 1 stops when it has nothing left to do.
TEST_F(FaultyRanks, ALaunchEndsIfARankStopsAtItsEnd) {
  const Args args = training("run", {"--config", write("ranks.yaml", "dist: {timeout_s: 1}\n")});
  const Args launched = with({"launch", "--ranks", "2", "--grace", "0.2", "--"}, args);
  const auto launch = start(launched, [&] {
    setenv("OMP_NUM_THREADS", "1", 1);
    setenv("FAULT_RANK", "1", 1);
    plant("exit", 1, "stop", folder_ / "log");
  });
  ASSERT_TRUE(eventually([&] { return is_gone(launch->process()); }));
  const Ended ended = launch->end();
  EXPECT_EQ(ended.code, 7) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("params hash: "));
  EXPECT_EQ(
      ended.err,
      "trainer: launch: rank 1 was stopped or stuck: it ran on for 1 s (dist.timeout_s) after "
      "another one's end; find out what it waited for\n");
}

// ---- before the first update

TEST_F(FaultyRanks, AreRefusedIfTheirProgramsDiffer) {
  const Args args = tiny({"--run-dir", "out"});
  const auto all = ends(start_pair(args, [&](int rank) {
    std::vector<char*> argv = {const_cast<char*>("trainer")};
    for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
    argv.push_back(nullptr);
    if (rank == 1) execv((program_dir() + "/trainer").c_str(), argv.data());
  }));
  for (const Ended& ended : all) {
    EXPECT_EQ(ended.code, 7);
    EXPECT_THAT(ended.err, HasSubstr("the ranks differ: the checksum of the program file is "));
  }
}

// ---- kills at random

// The launcher or a rank is killed, and the next launch resumes, until one reaches the end of the
// run. BELLOWS_KILLS=100 kills as often.
TEST_F(FaultyRanks, ResumeToTheSameHashAfterKillsAtRandom) {
  const auto launched = [&](const std::string& folder) {
    const Args args = training(
        folder, {"ckpt.every_iters=1", "train.epochs=4", cat("dist.timeout_s=", kTimeoutS)});
    return start(with({"launch", "--ranks", "2", "--"}, args),
                 [] { setenv("OMP_NUM_THREADS", "1", 1); });
  };
  const Clock::time_point first = Clock::now();
  const std::string whole = hash_in(launched("whole")->end().out);
  ASSERT_EQ(whole.size(), 8u);
  const auto run_us = static_cast<uint64_t>(1e6 * seconds_since(first));
  const char* const given = std::getenv("BELLOWS_KILLS");
  const int kills = given ? std::atoi(given) : 4;
  std::mt19937_64 random(7);
  int sent = 0, chains = 0, seen = 0;
  double slowest_s = 0;
  while ((sent < kills || seen) && !HasFailure()) {
    const auto launch = launched(cat("chain", chains));
    std::vector<pid_t> victims = {launch->process()};
    if (sent < kills) {
      usleep(random() % run_us);
      for (const pid_t rank : children_of(launch->process())) victims.push_back(rank);
      kill(victims[random() % victims.size()], SIGKILL);
    }
    const Clock::time_point killed = Clock::now();
    const Ended ended = launch->end();
    for (const pid_t process : victims) EXPECT_TRUE(eventually([&] { return is_gone(process); }));
    if (ended.code == 0) {  // it had come to its end before the kill
      EXPECT_EQ(hash_in(ended.out), whole) << "chain " << chains;
      ++chains, seen = 0;
      continue;
    }
    slowest_s = std::max(slowest_s, seconds_since(killed));
    EXPECT_EQ(ended.code, 128 + SIGKILL) << ended.err;
    EXPECT_LT(slowest_s, kLimitS) << ended.err;
    ++sent, ++seen;
  }
  std::cout << sent << " kills in " << chains << " runs; the slowest end took " << slowest_s
            << " s\n";
}
