// trainer profile on several ranks.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include "labs/profile/analysis.h"
#include "tests/place.h"
#include "tests/trainer/rank_programs.h"

using namespace bellows;
using testing::HasSubstr;

namespace {

class RankProfile : public RankPrograms {
 protected:
  // Profiles two ranks of LeNet, each with a name for its report. Returns that of rank 0.
  Json report_of(const Args& more) {
    const std::vector<Ended> ranks = run_ranks(
        2,
        with({"profile", "--config", cat(source_dir(), "/configs/ddp/lenet.yaml"), "--steps", "3:9",
              "--json", "p.json", "data.train_size=192", "data.test_size=8", "data.batch_size=8"},
             more));
    for (const Ended& rank : ranks) EXPECT_EQ(rank.code, 0) << rank.err;
    EXPECT_EQ(ranks[1].out, "");
    Json report = Json::parse(read("p.json"));
    EXPECT_THAT(ranks[0].out, HasSubstr(report["text"].get<std::string>()));
    expect_80_columns(ranks[0].out);
    EXPECT_EQ(report["ranks"].size(), 2u);
    return report;
  }
  static int64_t end_of(const Json& range) {
    return range["begin_ns"].get<int64_t>() + range["ns"].get<int64_t>();
  }
};

}  // namespace

TEST_F(RankProfile, HasOneUpdateOfAllRanksOnOneClock) {
  const Json report = report_of({});
  int64_t first = INT64_MAX;
  for (const Json& part : report["ranks"]) {
    EXPECT_EQ(part["step"], report["typical_update"]["step"]);
    EXPECT_EQ(part["shares_clock"], true);
    EXPECT_EQ(part["buckets"].size(), 4u) << part["buckets"];
    EXPECT_GE(part["all_reduce_s"], part["exposed_s"]);
    EXPECT_GT(part["max_mem_allocated"], 0);
    EXPECT_GT(part["peak_resident_bytes"], part["max_mem_allocated"]);
    first = std::min(first, part["begin_ns"].get<int64_t>());
  }
  EXPECT_EQ(first, 0);
}

TEST_F(RankProfile, WithoutOverlapExposesEveryBucketAfterBackward) {
  const Json report = report_of({"toggles.overlap_allreduce=off"});
  for (const Json& part : report["ranks"]) {
    EXPECT_GT(part["exposed_s"], 0);
    EXPECT_NEAR(part["exposed_s"], part["all_reduce_s"], 1e-9);
    int64_t last_backward = 0;
    for (const Json& op : part["ops"])
      if (op.value("backward", false)) last_backward = std::max(last_backward, end_of(op));
    for (const Json& bucket : part["buckets"]) EXPECT_GE(bucket["begin_ns"], last_backward);
  }
}

TEST(RankProfileText, DrawsWhatRunsAtTheMiddleOfEachColumn) {
  const auto range = [](const char* name, int64_t begin, int64_t end) {
    return Json{{"name", name}, {"begin_ns", begin}, {"ns", end - begin}, {"backward", false}};
  };
  Json back = range("conv2d", 10, 30);
  back["backward"] = true;
  const Json part = {{"begin_ns", 0},
                     {"s", 60e-9},
                     {"step", 7},
                     {"shares_clock", true},
                     {"all_reduce_s", 0.003},
                     {"exposed_s", 0.001},
                     {"max_mem_allocated", 3 << 19},
                     {"peak_resident_bytes", 90 << 20},
                     {"ops", {range("conv2d", 0, 10), back, range("optimizer", 45, 50)}},
                     {"waits", {range("wait_for_buckets", 30, 45)}},
                     {"buckets", {range("bucket 0 (b)", 15, 25), range("bucket 12 (a)", 25, 44)}}};
  Json late = part;
  late["begin_ns"] = 10;
  late["shares_clock"] = false;
  late["max_mem_allocated"] = 5 << 20;
  const std::string text = ranks_text({part, late});
  EXPECT_THAT(text,
              HasSubstr("rank  all-reduce ms a step  hidden  exposed  tensors MiB  process MiB\n"
                        "   0                 3.000   2.000    1.000          1.5         90.0\n"
                        "   1                 3.000   2.000    1.000          5.0         90.0\n"));
  EXPECT_THAT(text, HasSubstr("\nstep 7, 1e-06 ms a column;"));
  EXPECT_THAT(text, HasSubstr("\nrank 0  ffffffffffbbbbbbbbbbbbbbbbbbbb!!!!!!!!!!!!!!!ooooo\n"
                              "                       00000000002222222222222222222\n"
                              "rank 1            ffffffffff"));
  EXPECT_TRUE(text.ends_with("on another host, whose clock is not rank 0's\n"));
}
