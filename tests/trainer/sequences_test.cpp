// Training on sequences through the real program: the loss is the mean over the targets of all
// ranks, however they are split; resume is exact; texts can be continued.
#include <nlohmann/json.hpp>
#include "tests/trainer/rank_programs.h"

using namespace bellows;

namespace {

class SequencesTest : public RankPrograms {
 protected:
  static Args sums(const std::string& folder, const std::string& buckets, int batch,
                   const Args& more = {}) {
    return with({"train", "model={name: gpt, layers: 1, width: 16, heads: 2}",
                 cat("data={name: sums, digits: 2, train_size: 70, test_size: 20, batch_size: ",
                     batch, "}"),
                 "toggles.length_buckets=" + buckets, "eval.metrics=[exact_match, perplexity]",
                 "optimizer={name: adamw, lr: 0.01}", "train.epochs=2", "dist.uneven=join",
                 "log={every: 1, tensorboard: false}", "--run-dir", folder},
                more);
  }
  std::vector<double> losses(const std::string& run) const {
    std::vector<double> losses;
    for (const Json& row : rows(run, "train")) losses.push_back(row["loss"].get<double>());
    for (const Json& row : rows(run, "test")) losses.push_back(row["loss"].get<double>());
    return losses;
  }
};

// 70 samples in joint batches of 8: the last round has 6, on 4 ranks two each or one.
TEST_F(SequencesTest, TheLossIsTheMeanOverTheTargetsOfAllRanksAndMicroBatches) {
  for (const char* buckets : {"off", "sorted", "buckets", "tokens"}) {
    train(1, sums(cat(buckets, 1), buckets, 8));
    train(1, sums(cat(buckets, "parts"), buckets, 8, {"toggles.gradient_accumulation=3"}));
    for (const int world : {2, 4}) train(world, sums(cat(buckets, world), buckets, 8 / world));
    const std::vector<double> one = losses(cat(buckets, 1));
    EXPECT_EQ(one.size(), 2 * (buckets == std::string("tokens") ? 8u : 9u) + 2);
    for (const char* other : {"parts", "2", "4"}) {
      const std::vector<double> split = losses(cat(buckets, other));
      ASSERT_EQ(split.size(), one.size()) << buckets << " " << other;
      for (size_t i = 0; i < one.size(); ++i)
        EXPECT_NEAR(split[i], one[i], 2e-4 * one[i]) << buckets << " " << other << " " << i;
    }
  }
}

TEST_F(SequencesTest, AResumedRunHasTheBitsOfOneThatWasNot) {
  const std::string whole = train(1, sums("whole", "tokens", 8));
  train(1, sums("begun", "tokens", 8, {"ckpt={every_iters: 5, keep: 9}"}));
  const std::string resumed =
      train(1, {"train", "--resume", "begun/checkpoints/step_00000005.safetensors"});
  EXPECT_EQ(hash_in(resumed), hash_in(whole));
}

TEST_F(SequencesTest, ATrainedModelContinuesTexts) {
  train(1, sums("run", "off", 8));
  const Ended json = run({"predict", "run", "12+34=", "--json"});
  EXPECT_THAT(json.out, HasSubstr("{\"text\":\""));
  EXPECT_EQ(run({"predict", "run", "12+34="}).code, 0);
  expect_refusal({"predict", "run", "12-34="}, 3, "12-34=: - is not a character of the data set");
}

// The share of padding falls, and so does the difference between ranks.
TEST_F(SequencesTest, TheLogHasThePaddingAndTheImbalanceOfTheRanks) {
  const auto worst = [&](const char* buckets, const char* key) {
    double worst = 0;
    for (const Json& row : rows(cat(buckets, "2"), "train"))
      worst = std::max(worst, row[key].get<double>());
    return worst;
  };
  for (const char* buckets : {"off", "tokens"}) train(2, sums(cat(buckets, "2"), buckets, 8));
  EXPECT_LT(worst("tokens", "padding_share"), worst("off", "padding_share"));
  EXPECT_LT(worst("tokens", "token_imbalance"), worst("off", "token_imbalance"));
}

}  // namespace
