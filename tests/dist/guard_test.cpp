#include "dist/groups/guard.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "core/base/check.h"

using namespace bellows;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

TEST(GuardTest, KeepsTheLastCollectives) {
  GroupContext alone;
  alone.options.flight_recorder = 3;
  Guard guard(alone, "gloo", "", [] {});
  for (int i = 1; i <= 5; ++i) {
    Collective c{.op = "all_reduce (sum)",
                 .elements = 10 * i,
                 .dtype = DType::bf16,
                 .what = cat("bucket ", i),
                 .step = 2};
    guard.start(c);
    EXPECT_EQ(c.sequence, i);
  }
  guard.done(1);  // forgotten already
  guard.done(4);
  const std::string report = guard.report();
  EXPECT_THAT(report, Not(HasSubstr("bucket 2")));
  EXPECT_THAT(report,
              ContainsRegex("collective 3, step 2: all_reduce \\(sum\\) of 30 bf16: bucket 3 "
                            "\\(60 bytes\\); started [0-9:.]{12}, not done\n"
                            "collective 4, .*, done after [0-9.]+ ms\n"
                            "collective 5, .*, not done\n$"));
}
