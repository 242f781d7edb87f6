// data.batch_size: auto: where the search ends, and a run that trains with what it found.
#include <gmock/gmock.h>
#include "core/base/check.h"
#include "tests/place.h"
#include "tests/trainer/program.h"
#include "trainer/run/run.h"
#include "trainer/verbs/verbs.h"

using namespace bellows;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

namespace {
constexpr int64_t kPlenty = int64_t{1} << 40;

// A device that is full with `full` samples: they take 1 s, fewer take as long. 1 MiB each.
auto device(int64_t full) {
  return [full](int64_t batch) {
    const double s = std::max(1.0, double(batch) / double(full));
    return BatchTrial{.samples_per_s = double(batch) / s, .peak_bytes = batch << 20};
  };
}
}  // namespace

TEST(AutoBatch, StopsWhereALargerBatchIsNotFasterOrTwiceThePeakDoesNotFit) {
  BatchChoice choice = grow_batch(10'000, kPlenty, device(100));
  EXPECT_EQ(choice.batch, 128);
  EXPECT_EQ(choice.reason,
            "samples/s of forward and backward: 16: 16, 32: 32, 64: 64, 128: 100, 256: 100");
  EXPECT_EQ(grow_batch(10'000, kPlenty, device(1)).batch, 16);
  choice = grow_batch(10'000, 130 << 20, device(1000));
  EXPECT_EQ(choice.batch, 128) << "takes 128 of 130 MiB";
  EXPECT_THAT(choice.reason, EndsWith(", 256 may need more than 130 MiB"));
  EXPECT_EQ(grow_batch(100, kPlenty, device(1000)).batch, 64) << "at most the training set";
  EXPECT_EQ(grow_batch(5, kPlenty, device(1000)).batch, 5);
}

TEST(AutoBatch, BacksOffWhereMemoryRunsOut) {
  const auto try_out = [](int64_t batch) {
    if (batch > 32) fail(Exit::memory, "out of memory");
    return BatchTrial{.samples_per_s = double(batch)};
  };
  const BatchChoice choice = grow_batch(10'000, kPlenty, try_out);
  EXPECT_EQ(choice.batch, 32);
  EXPECT_THAT(choice.reason, EndsWith(", 64 does not fit into memory"));
  const auto broken = [](int64_t) -> BatchTrial { fail(Exit::data, "damaged"); };
  EXPECT_THROW(grow_batch(10'000, kPlenty, broken), Error);
}

// The folder of the run says which number was found; the same run goes on with it.
TEST_F(Program, TrainsAndResumesWithTheBatchSizeItFound) {
  const auto automatic = [](const char* epochs) {
    return Args{"train",
                "--run-dir",
                "out",
                "data={name: digits, train_size: 100, test_size: 20}",
                "data.batch_size=auto",
                epochs};
  };
  const std::string first = succeed(automatic("train.epochs=1"));
  EXPECT_THAT(first, HasSubstr("data.batch_size: auto -> "));
  const size_t at = first.find("batch_size: auto -> ") + 20;
  const std::string batch = first.substr(at, first.find(' ', at) - at);
  EXPECT_THAT(batch, testing::AnyOf("16", "32", "64"));
  EXPECT_THAT(read("out/plan.yaml"), HasSubstr("batch_size: " + batch));
  EXPECT_THAT(succeed(with(automatic("train.epochs=2"), {"--resume"})),
              AllOf(HasSubstr("resume: changed train.epochs: 1 -> 2"),
                    testing::Not(HasSubstr("data.batch_size"))));
}

TEST_F(Program, RefusesAnAutomaticBatchSizeOfSeveralRanksAndWhereNothingTrains) {
  const Ended ended = run({"launch", "--ranks", "2", "--", "data.batch_size=auto"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("tries sizes in one process; write a number for several ranks"));
  if (!verbs().contains("profile")) return;
  expect_refusal(
      {"profile", "--config", source_dir() + "/configs/lenet.yaml", "data.batch_size=auto"}, 2,
      "data.batch_size: auto is found by training; write a number");
}
