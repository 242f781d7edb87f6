#include "dist/groups/flight_recorder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "core/base/check.h"

using namespace bellows;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

TEST(FlightRecorder, KeepsTheLastCollectives) {
  FlightRecorder recorder(3);
  for (int i = 1; i <= 5; ++i)
    EXPECT_EQ(recorder.start({.op = "all_reduce (sum)",
                              .elements = 10 * i,
                              .dtype = DType::bf16,
                              .what = cat("bucket ", i),
                              .step = 2}),
              i);
  recorder.finish(1);  // forgotten already
  recorder.finish(4);
  EXPECT_EQ(recorder.started(), 5);
  const std::string report = recorder.report();
  EXPECT_THAT(report, Not(HasSubstr("bucket 2")));
  EXPECT_THAT(report,
              ContainsRegex("collective 3, step 2: all_reduce \\(sum\\) of 30 bf16: bucket 3 "
                            "\\(60 bytes\\); started [0-9:.]{12}, not done\n"
                            "collective 4, .*, done after [0-9.]+ ms\n"
                            "collective 5, .*, not done\n$"));
}

TEST(FlightRecorder, DescribesCollectivesWithoutATensor) {
  const Collective barrier{.op = "barrier", .what = "end", .step = 3};
  EXPECT_EQ(description_of(barrier), "barrier: end");
  EXPECT_EQ(place_of(barrier), "step 3, end");
  EXPECT_EQ(place_of({.op = "barrier", .what = "start"}), "start");
}
