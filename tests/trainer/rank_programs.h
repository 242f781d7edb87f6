// Runs the real program as the ranks of one run, each with the variables of `trainer launch`.
#pragma once
#include "tests/free_port.h"
#include "tests/trainer/program.h"

namespace bellows {

class RankPrograms : public Program {
 protected:
  using InRank = std::function<void(int rank)>;
  using ArgsOf = std::function<Args(int rank)>;
  using Running = std::vector<std::unique_ptr<RunningProgram>>;

  // `in_rank` runs in each process before it becomes the program.
  Running start_ranks(
      int world, const ArgsOf& args, const InRank& in_rank = [](int) {}) {
    Running ranks;
    port_ = free_port();
    for (int rank = 0; rank < world; ++rank)
      ranks.push_back(start(args(rank), [&] {
        for (const auto& [name, value] : {std::pair("BELLOWS_RANK", rank),
                                          {"BELLOWS_LOCAL_RANK", rank},
                                          {"BELLOWS_WORLD", world},
                                          {"BELLOWS_LOCAL_WORLD", world},
                                          {"BELLOWS_PORT", port_},
                                          {"OMP_NUM_THREADS", 1}})
          setenv(name, std::to_string(value).c_str(), 1);
        setenv("BELLOWS_HOST", "127.0.0.1", 1);
        setenv("BELLOWS_TOKEN", "of this test", 1);
        in_rank(rank);
      }));
    return ranks;
  }
  static std::vector<Ended> ends(const Running& ranks) {
    std::vector<Ended> all;
    for (const auto& rank : ranks) all.push_back(rank->end());
    return all;
  }
  std::vector<Ended> run_ranks(
      int world, const Args& args, const InRank& in_rank = [](int) {}) {
    return ends(start_ranks(
        world, [&](int) { return args; }, in_rank));
  }
  // Runs that many ranks, or one process, without an error. Returns what rank 0 printed.
  std::string train(int world, const Args& args) {
    const std::vector<Ended> all =
        world == 1 ? std::vector{run(args, [] { setenv("OMP_NUM_THREADS", "1", 1); })}
                   : run_ranks(world, args);
    for (const Ended& ended : all) EXPECT_EQ(ended.code, 0) << ended.err;
    return all[0].out;
  }

  int port_ = 0;  // of the store of the ranks that were started last
};

}  // namespace bellows
