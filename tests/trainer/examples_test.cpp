// The programs in examples/.
#include <gmock/gmock.h>
#include "tests/place.h"
#include "tests/trainer/rank_programs.h"

using namespace bellows;
using testing::HasSubstr;

namespace {
class LoopExample : public RankPrograms {
 protected:
  std::string program() const override { return program_dir() + "/loop"; }
  // Returns the losses that it prints, in the order of epochs.
  static std::vector<double> losses_in(const std::string& out) {
    std::vector<double> losses;
    for (const std::string& line : lines_of(out))
      losses.push_back(std::stod(line.substr(line.find("loss ") + 5)));
    return losses;
  }
};
}  // namespace

TEST_F(LoopExample, LearnsTheSameInEachRun) {
  const std::string out = succeed({});
  const std::vector<double> losses = losses_in(out);
  ASSERT_EQ(losses.size(), 2);
  EXPECT_LT(losses[1], 0.8 * losses[0]);
  EXPECT_EQ(succeed({}), out);
}

TEST_F(LoopExample, LearnsOnTwoRanks) {
  for (const Ended& rank : run_ranks(2, {})) {
    EXPECT_EQ(rank.code, 0) << rank.err;
    const std::vector<double> losses = losses_in(rank.out);
    ASSERT_EQ(losses.size(), 2);
    EXPECT_LT(losses[1], 0.95 * losses[0]);
  }
}
