// Options of every type from text and back to it. tests/trainer/options_test.cpp refuses texts for
// each option of the program.
#include "core/config/values.h"
#include "core/config/choice.h"
#include "tests/matchers.h"

using namespace bellows;

namespace {

enum class Order { sequential, shuffled };
struct LoaderOptions {
  int batch_size = 128;
  Order order = Order::shuffled;
  bool pin_memory = false;
  uint64_t seed = 1;
  std::string root = "data";
  std::vector<int> sizes = {28, 28};
};
void visit(Visitor& v, LoaderOptions& o) {
  v("batch_size", o.batch_size, "samples per step and rank", {.min = 1});
  v("order", o.order, {"sequential", "shuffled"}, "of the samples in an epoch");
  v("pin_memory", o.pin_memory, "page-locked buffers");
  v("seed", o.seed, "of the shuffle");
  v("root", o.root, "folder of the data");
  v.list("sizes", o.sizes, "height and width", {.min = 1});
}

struct Rule {
  double first, second;
};
struct SgdOptions {
  double lr = 0.1, momentum = 0;
};
void visit(Visitor& v, SgdOptions& o) {
  v("lr", o.lr, "learning rate");
  v("momentum", o.momentum, "share of the last step", {.min = 0, .max = 1});
}
struct AdamOptions {
  double lr = 0.001, beta2 = 0.999;
};
void visit(Visitor& v, AdamOptions& o) {
  v("lr", o.lr, "learning rate");
  v("beta2", o.beta2, "decay of the squares");
}
const AddEntry<Rule()> kSgd(
    "sgd", "", +[](const SgdOptions& o) {
      return Rule{o.lr, o.momentum};
    });
const AddEntry<Rule()> kAdam(
    "adam", "", +[](const AdamOptions& o) {
      return Rule{o.lr, o.beta2};
    });

struct OptimizerOptions {
  Choice<Rule()> rule{"sgd"};
  double clip_norm = 0;
};
void visit(Visitor& v, OptimizerOptions& o) {
  v.choice("name", o.rule, "update rule");
  v("clip_norm", o.clip_norm, "largest norm of the gradient; 0: any", {.min = 0});
}

struct Options {
  LoaderOptions loader;
  OptimizerOptions optimizer;
  std::vector<Choice<Rule()>> phases;
};
void visit(Visitor& v, Options& o) {
  v.group("loader", o.loader);
  v.group("optimizer", o.optimizer);
  v.choices("phases", o.phases, "rules that follow one another");
}

// Values as from a file whose line n holds the nth key.
Values given(const std::vector<std::pair<std::string, std::string>>& keys) {
  Values values;
  for (const auto& [key, text] : keys)
    values[key] = {text, cat("a.yaml:", values.size() + 1, ":1")};
  return values;
}

}  // namespace

TEST(Values, AreReadAndDumpedForEveryKind) {
  const Values source = given({{"loader.batch_size", "3"},
                               {"loader.order", "sequential"},
                               {"loader.pin_memory", "true"},
                               {"loader.seed", "9223372036854775809"},
                               {"loader.root", "some where"},
                               {"loader.sizes.0", "1"},
                               {"loader.sizes.1", "2"},
                               {"loader.sizes.2", "3"},
                               {"optimizer.lr", "0.30000000000000004"},
                               {"phases.0", "adam"},
                               {"phases.1.name", "sgd"},
                               {"phases.1.momentum", "0.5"}});
  const Options options = load(Options{}, source);
  EXPECT_EQ(options.loader.batch_size, 3);
  EXPECT_EQ(options.loader.order, Order::sequential);
  EXPECT_TRUE(options.loader.pin_memory);
  EXPECT_EQ(options.loader.seed, 9223372036854775809u);
  EXPECT_EQ(options.loader.sizes, (std::vector{1, 2, 3}));
  EXPECT_EQ(options.optimizer.rule.make().first, 0.1 + 0.2);
  EXPECT_EQ(options.phases.at(1).make().second, 0.5);
  const Values dumped = dump(options);
  for (const auto& [key, value] : source)
    EXPECT_EQ(dumped.at(key == "phases.0" ? "phases.0.name" : key).text, value.text) << key;
  EXPECT_EQ(dump(load(Options{}, dumped)), dumped);
  EXPECT_EQ(dump(Options{}).at("phases").text, "[]");
}

static Values load_all(Options& options, const std::vector<Values>& sources) {
  Values origins = dump(options);
  for (const Values& source : sources) load_onto(options, origins, source);
  return origins;
}

TEST(Values, OfALaterSourceReplaceThoseBefore) {
  const Values base = given({{"optimizer", "adam"},
                             {"optimizer.beta2", "0.9"},
                             {"phases.0.name", "sgd"},
                             {"phases.0.momentum", "0.5"},
                             {"phases.1", "adam"}});
  Options options;
  load_all(options, {base, given({{"optimizer.name", "adam"}, {"optimizer.lr", "0.5"}})});
  EXPECT_EQ(options.optimizer.rule.make().second, 0.9) << "an override lost what the base said";
  load_all(options, {given({{"phases.0", "sgd"}, {"optimizer", "sgd"}})});
  ASSERT_EQ(options.phases.size(), 1u) << "a list was merged with the one before";
  EXPECT_EQ(options.phases[0].make().second, 0) << "an old item's options are in a new one";
  EXPECT_FALSE(dump(options).contains("optimizer.beta2")) << "an option outlived its entry";
  load_all(options, {given({{"phases", "[]"}})});
  EXPECT_TRUE(options.phases.empty());
}

TEST(Values, ArePrintedAsNestedYamlWithTheirOrigins) {
  Options options;
  const Values all = load_all(options, {given({{"loader.root", "a: b"},
                                               {"phases.0.name", "sgd"},
                                               {"phases.0.momentum", "0.5"},
                                               {"phases.1", "adam"}})});
  const std::string text = print(options, all);
  EXPECT_THAT(text, ContainsRegex("^loader:\n  batch_size: 128 +# default\n"));
  EXPECT_THAT(text, ContainsRegex("\n  root: \"a: b\" +# a.yaml:1:1\n"));
  EXPECT_THAT(text, ContainsRegex("\n  sizes:\n    - 28 +# default\n    - 28 "));
  EXPECT_THAT(text, ContainsRegex("\n  - name: sgd +# a.yaml:2:1\n    lr: 0.1 +# default\n"
                                  "    momentum: 0.5 +# a.yaml:3:1\n  - name: adam "));
  EXPECT_THAT(text, ContainsRegex("\noptimizer:\n  name: sgd +# default\n  lr: 0.1 "));
  EXPECT_THAT(print(Options{}, {}), HasSubstr("\nphases: []"));
}

// ---- marks

namespace {
struct Kept {
  int64_t size = 1;
  double rate = 0.5;
  Choice<Rule()> one{"sgd"};
  std::vector<Choice<Rule()>> many{Choice<Rule()>("adam")};
};
void visit(Visitor& v, Kept& o) {
  v("size", o.size, "how large").in_a_branch();
  v("rate", o.rate, "how fast").forgets(Forget::rate).also({"speed"});
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

TEST(Marks, OfAGroupLeaveThoseOfItsOptions) {
  const MarksByKey marks = marks_of(Whole());
  EXPECT_EQ(marks.at("on").change, Marks::unmarked);
  EXPECT_EQ(marks.at("kept.size").change, Marks::branch);
  for (const char* key : {"kept.rate", "kept.many.0.lr"})
    EXPECT_EQ(marks.at(key).change, Marks::resumable) << key;
  EXPECT_EQ(marks.at("kept.rate").forgets, Forget::rate);
  EXPECT_THAT(marks.at("kept.rate").elsewhere, ElementsAre("speed"));
  EXPECT_STREQ(marks.at("kept.one").why, "it is kept");
  for (const char* key : {"kept.many", "kept.many.0.name"})
    EXPECT_STREQ(marks.at(key).why, "they are kept");
}
