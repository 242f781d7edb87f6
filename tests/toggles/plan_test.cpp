// A Plan is plain data: it survives conversion to text and back, and every option has a help text.
#include "plan/plan.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "core/config/values.h"
#include "tests/refusal.h"

using namespace bellows;
using testing::StartsWith;

static Values given(const std::map<std::string, std::string>& texts) {
  Values values;
  for (const auto& [key, text] : texts) values[key] = {text, "test"};
  return values;
}

TEST(DeviceChoiceTest, ReadsWhatItPrints) {
  DeviceChoice choice = DeviceChoice::automatic;
  const Option option = option_of(choice, Bounds());
  EXPECT_EQ(option.text, "auto");
  for (const std::string text : {"auto", "cpu", "cuda", "cuda:0", "cuda:15"}) {
    EXPECT_TRUE(option.read(text)) << text;
    EXPECT_EQ(choice.text(), text);
  }
  EXPECT_EQ(choice.kind, DeviceChoice::cuda);
  EXPECT_EQ(choice.gpu, 15);
}

TEST(DeviceChoiceTest, RefusesOtherTexts) {
  DeviceChoice choice = DeviceChoice::cpu;
  const Option option = option_of(choice, Bounds());
  for (const std::string text : {"", "CUDA", "gpu", "cpu:0", "cuda:", "cuda:-1", "cuda:01",
                                 "cuda:1x", "cuda: 1", "cuda:99999999999", "cuda:0,1"})
    EXPECT_FALSE(option.read(text)) << text;
  EXPECT_EQ(choice.text(), "cpu");
}

TEST(Plan, ACopySharesNothing) {
  const Plan plan;
  const Values before = dump(plan);
  Plan copy = plan;
  copy = load(copy, given({{"data.train_size", "5"}, {"optimizer.lr", "9"}}));
  EXPECT_EQ(dump(plan), before);
}

TEST(Plan, MistakesAreRefusedWhereTheyAre) {
  const auto refused_with = [](const std::string& key, const std::string& text) {
    return refusal([&] { load(Plan{}, given({{key, text}})); });
  };
  EXPECT_EQ(refused_with("data.batch_size", "0"),
            "test: data.batch_size: '0' is not auto or a whole number from 1 to 16777216");
  EXPECT_EQ(load(Plan{}, given({{"data.batch_size", "auto"}})).data.loader.sampler.batch_size,
            kAutoBatch);
  EXPECT_EQ(dump(load(Plan{}, given({{"data.batch_size", "auto"}}))).at("data.batch_size").text,
            "auto");
  EXPECT_THAT(refused_with("model.name", "lenett"),
              StartsWith("test: model.name: 'lenett' is not"));
  EXPECT_THAT(refused_with("train", "5"), StartsWith("test: train: '5' is not a map"));
}

namespace {
class Explanations : public Visitor {
 public:
  int count = 0;

 protected:
  void option(const std::string& key, const Option& option, const char* help) override {
    ++count;
    EXPECT_TRUE(help && *help) << key << " has no help";
    EXPECT_FALSE(option.accepts.empty()) << key;
    EXPECT_EQ(key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_."), std::string::npos)
        << key;
  }
  std::optional<size_t> list_size(const std::string& key, size_t, const char* help) override {
    EXPECT_TRUE(help && *help) << key << " has no help";
    return 1;
  }
};
}  // namespace

TEST(Plan, EveryOptionExplainsItselfForEveryEntry) {
  for (const std::string& model : Choice<MakeModel>::names()) {
    Plan plan;
    plan.model.model.choose(model);
    Explanations visitor;
    visit(visitor, plan);
    EXPECT_GT(visitor.count, 50);
  }
}
