// Options as text: values that each type accepts or refuses, and the order of a visit.
#include "core/config/visitor.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "core/config/choice.h"
#include "core/device/kernel_options.h"
#include "tests/refusal.h"

using namespace bellows;
using testing::ElementsAre;
using testing::Pair;

// Returns the text after reading `text`, or "refused", in which case the value must not change.
template <class T> static std::string read(const std::string& text, T value, Bounds bounds = {}) {
  const T before = value;
  if (option_of(value, bounds).read(text)) return option_of(value, bounds).text;
  return value == before ? "refused" : "refused, but changed";
}

TEST(Option, ReadsWholeNumbersThatMeanTheSameToEveryReader) {
  EXPECT_EQ(read("5", 0), "5");
  EXPECT_EQ(read("-3", 0), "-3");
  EXPECT_EQ(read("0", 7), "0");
  EXPECT_EQ(read("1000000000", int64_t{}), "1000000000");
  EXPECT_EQ(read("18446744073709551615", uint64_t{}), "18446744073709551615");
  for (const char* text : {"1000000001", "-1000000001", "9223372036854775807"})
    EXPECT_EQ(read(text, int64_t{7}), "refused") << text;  // limited, since counts are multiplied
  for (const char* text : {"010", "+5", "1e3", "1_000", "0x10", "5 ", " 5", "", "-", "5.0", "--5",
                           "5x", "nan", "true", "2147483648", "-00"})
    EXPECT_EQ(read(text, 7), "refused") << text;
  EXPECT_EQ(read("-1", uint64_t{7}), "refused");
  EXPECT_EQ(read("9223372036854775808", int64_t{7}), "refused");
}

TEST(Option, ReadsNumbersAndGivesThemBackDigitForDigit) {
  for (const char* text : {"0.1", "1e-05", "0.30000000000000004", "-2.5", "1e+300", "0", "123456"})
    EXPECT_EQ(read(text, 7.0), text);
  EXPECT_EQ(read("1e3", 7.0), "1000");
  for (const char* text : {"nan", "-nan", "inf", "-inf", "1e400", "+1", ".5", "01.5", "1,5",
                           "0x1p3", "1e", "1.5.2", "", "one"})
    EXPECT_EQ(read(text, 7.0), "refused") << text;
}

TEST(Option, BoundsIncludeBothEnds) {
  const Bounds bounds{.min = 1, .max = 4};
  EXPECT_EQ(read("1", 2, bounds), "1");
  EXPECT_EQ(read("4", 2, bounds), "4");
  EXPECT_EQ(read("0", 2, bounds), "refused");
  EXPECT_EQ(read("5", 2, bounds), "refused");
  EXPECT_EQ(read("0.999", 2.0, bounds), "refused");
  int n = 2;
  EXPECT_EQ(option_of(n).accepts, "a whole number from -1000000000 to 1000000000");
  EXPECT_EQ(option_of(n, bounds).accepts, "a whole number from 1 to 4");
  EXPECT_EQ(option_of(n, {.min = 1}).accepts, "a whole number from 1 to 1000000000");
  EXPECT_EQ(option_of(n, {.max = 4}).accepts, "a whole number from -1000000000 to 4");
}

TEST(Option, ReadsBoolsAndNamesExactly) {
  EXPECT_EQ(read("true", false), "true");
  EXPECT_EQ(read("false", true), "false");
  for (const char* text : {"True", "yes", "on", "1", ""}) EXPECT_EQ(read(text, false), "refused");
  bool flag = false;
  EXPECT_EQ(option_of(flag).accepts, "false or true");
  EXPECT_EQ(read("any: text # at all", std::string()), "any: text # at all");
}

// ---- visiting

namespace {

enum class Order { sequential, shuffled };
struct Inner {
  double rate = 0.5;
};
void visit(Visitor& v, Inner& o) { v("rate", o.rate, "of something"); }

struct Shown {
  int64_t size = 3;
};
void visit(Visitor& v, Shown& o) { v("size", o.size, "of it", {.min = 0}); }
struct Silent : NoOptions {};

using Make = std::string(int times);
const AddEntry<Make> shown(
    "shown", "with an option",
    +[](const Shown& o, int times) { return cat("shown ", o.size * times); });
const AddEntry<Make> silent(
    "silent", "without", +[](const NoOptions&, int times) { return cat("silent ", times); });

struct Outer {
  int64_t count = 1;
  Order order = Order::shuffled;
  std::string metric = "none";
  std::vector<double> betas{0.9, 0.999};
  Inner inner;
  Choice<Make> one{"silent"};
  std::vector<Choice<Make>> many;
};
void visit(Visitor& v, Outer& o) {
  v("count", o.count, "how many");
  v("order", o.order, {"sequential", "shuffled"}, "in which");
  v("metric", o.metric, {"none", "loss"}, "what counts");
  v.list("betas", o.betas, "decay rates");
  v.group("inner", o.inner);
  v.choice("one", o.one, "of the entries");
  v.choices("many", o.many, "of the entries");
}

// Sets the options in `given` and records all options in the order of the visit.
class Walk : public Visitor {
 public:
  std::map<std::string, std::string> given;
  std::vector<std::pair<std::string, std::string>> seen;
  std::vector<std::string> refused;

 protected:
  void option(const std::string& key, const Option& option, const char*) override {
    seen.emplace_back(key, option.text);
    if (given.contains(key) && !option.read(given.at(key))) refused.push_back(key);
  }
  std::optional<size_t> list_size(const std::string& key, size_t now, const char*) override {
    seen.emplace_back(key, std::to_string(now));
    return given.contains(key) ? std::optional<size_t>(std::stoul(given.at(key))) : std::nullopt;
  }
};

}  // namespace

TEST(Visitor, WalksThroughEveryKindOfOption) {
  Outer outer;
  Walk walk;
  visit(walk, outer);
  EXPECT_THAT(walk.seen,
              ElementsAre(Pair("count", "1"), Pair("order", "shuffled"), Pair("metric", "none"),
                          Pair("betas", "2"), Pair("betas.0", "0.9"), Pair("betas.1", "0.999"),
                          Pair("inner.rate", "0.5"), Pair("one", "silent"), Pair("many", "0")));
}

TEST(Visitor, SetsEnumsNamesAndGroups) {
  Outer outer;
  Walk walk;
  walk.given = {{"order", "sequential"}, {"metric", "loss"}, {"inner.rate", "0.25"}};
  visit(walk, outer);
  EXPECT_EQ(outer.order, Order::sequential);
  EXPECT_EQ(outer.metric, "loss");
  EXPECT_EQ(outer.inner.rate, 0.25);
  walk.given = {{"order", "random"}, {"metric", "accuracy"}};
  visit(walk, outer);
  EXPECT_THAT(walk.refused, ElementsAre("order", "metric"));
  EXPECT_EQ(outer.metric, "loss");
}

TEST(Visitor, AListOfEntriesBringsTheOptionsOfEach) {
  Outer outer;
  Walk walk;
  walk.given = {
      {"many", "2"}, {"many.0.name", "silent"}, {"many.1.name", "shown"}, {"many.1.size", "5"}};
  visit(walk, outer);
  ASSERT_EQ(outer.many.size(), 2u);
  EXPECT_EQ(outer.many[0].make(2), "silent 2");
  EXPECT_EQ(outer.many[1].make(2), "shown 10");
  walk.given = {{"many", "1"}, {"many.0.name", "shown"}};
  visit(walk, outer);
  EXPECT_EQ(outer.many.at(0).make(1), "shown 3") << "a new list starts from defaults";
}

namespace {
struct Kept {
  int64_t size = 1;
  double rate = 0.5;
  std::vector<double> betas{0.9};
  Choice<Make> one{"shown"};
  std::vector<Choice<Make>> many{Choice<Make>("shown")};
};
void visit(Visitor& v, Kept& o) {
  v("size", o.size, "how large").in_a_branch();
  v("rate", o.rate, "how fast").forgets(Forget::rate).also({"speed"});
  v.list("betas", o.betas, "decay rates");
  v.choice("one", o.one, "of the entries").fixed("it is kept");
  v.choices("many", o.many, "of the entries").fixed("they are kept");
}
struct Whole {
  Kept kept;
  bool on = false;
};
void visit(Visitor& v, Whole& o) {
  v("on", o.on, "whether");
  v.group("kept", o.kept).resumable();
}
}  // namespace

TEST(Visitor, AMarkOfAGroupLeavesThoseOfItsOptions) {
  Whole whole;
  Walk walk;
  visit(walk, whole);
  const MarksByKey& marks = walk.marks();
  EXPECT_EQ(marks.at("on").change, Marks::unmarked);
  EXPECT_EQ(marks.at("kept.size").change, Marks::branch);
  for (const char* key : {"kept.rate", "kept.betas", "kept.betas.0", "kept.many.0.size"})
    EXPECT_EQ(marks.at(key).change, Marks::resumable) << key;
  EXPECT_EQ(marks.at("kept.rate").forgets, Forget::rate);
  EXPECT_THAT(marks.at("kept.rate").elsewhere, ElementsAre("speed"));
  EXPECT_STREQ(marks.at("kept.one").why, "it is kept");
  EXPECT_STREQ(marks.at("kept.many").why, "they are kept");
  EXPECT_STREQ(marks.at("kept.many.0.name").why, "they are kept");
}

// ---- Choice

TEST(Choice, KnowsItsEntriesByName) {
  EXPECT_THAT(Choice<Make>::names(), ElementsAre("shown", "silent"));
  EXPECT_EQ(refusal([] { Choice<Make>("loud"); }), "no entry 'loud' is registered");
  EXPECT_EQ(refusal([] { Choice<Make>().make(1); }), "nothing is chosen");
}

TEST(Choice, AnotherEntryStartsFromItsDefaultsTheSameOneKeepsThem) {
  Choice<Make> choice("shown");
  choice.as<Shown>().size = 9;
  choice.choose("shown");
  EXPECT_EQ(choice.make(1), "shown 9");
  choice.choose("silent");
  choice.choose("shown");
  EXPECT_EQ(choice.make(1), "shown 3");
}

TEST(Choice, ACopyIsADeepOne) {
  Choice<Make> choice("shown");
  Choice<Make> copy = choice;
  copy.as<Shown>().size = 4;
  EXPECT_EQ(choice.make(1), "shown 3");
  EXPECT_EQ(copy.make(1), "shown 4");
}
