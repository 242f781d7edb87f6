// trainer ab on several ranks: each runs `ab` and its own rank of all arms.
#include <gmock/gmock.h>
#include <csignal>
#include "tests/place.h"
#include "tests/trainer/processes.h"
#include "tests/trainer/rank_programs.h"

using namespace bellows;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

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
