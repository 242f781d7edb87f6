// `trainer list` and `trainer explain`: names in any case and of other tools, cards, topics.
#include <set>
#include <sstream>
#include "plan/toggle.h"
#include "tests/place.h"
#include "tests/trainer/program.h"
#include "trainer/ab/arm_report.h"
#include "trainer/verbs/topics.h"

using namespace bellows;

class Explain : public Program {};

TEST_F(Explain, FindsNamesInAnyCaseAndThoseOfOtherTools) {
  const std::pair<const char*, Names> cases[] = {
      {"LeNet", {"models: lenet: "}},
      {"AdamW", {"optimizers: adamw: "}},
      {"Num-Workers", {"toggle num_workers"}},
      {"toggles.amp", {"toggle amp ("}},
      {"torch.no_grad", {"toggle eval_no_grad", "claim:", "cost:"}},
      {"toggles", {"trainer list toggles"}},
      {"Train.Epochs", {"option train.epochs"}},
      {"early_stopping", {"option train.patience = 0 "}},
      {"EarlyStopping", {"option train.patience = 0 "}},
      {"save_best", {"option ckpt.best = none "}},
      {"learning_rate", {"option optimizer.lr = "}},
      {"ckpt", {"option ckpt.every = ", "option ckpt.retries = "}},
      // The defaults are those of a run without a config.
      {"Loss", {"option loss.fused = true "}},
      {"data.num_workers", {"data.num_workers = 1 ", "toggles: {num_workers"}},
      {"model.width",
       {"option of models: resnet18: width = 64 (a whole number from 1 to 65536):",
        "option of models: resnet50: width"}},
      {"resnet18", {"\n  stem = auto (auto or imagenet or cifar): 7x7 stride 2"}},
      {"matmul", {"op matmul"}},
      {"relu", {"\n  on this CPU: plain\n"}},
      {"conv2d",
       {"op conv2d: y[k,i,j] = ", "\n  proved for: padding 1, ", "\n  on this CPU: ",
        "layers: conv2d: ", "\n  kernel = 3 (a whole number from 1 to 65536): "}},
  };
  for (const auto& [name, texts] : cases) {
    const std::string card = succeed({"explain", name});
    for (const std::string& text : texts) EXPECT_THAT(card, HasSubstr(text));
  }
  EXPECT_THAT(succeed({"explain", "einsum", "ij,jk->ki"}), HasSubstr("for "));
  expect_refusal({"explain", "einsum", "ij,jk->kz"}, 2, "z");
  expect_refusal({"explain", "num_worker"}, 2, "the nearest name is 'num_workers'");
  expect_refusal({"explain", "alignmen"}, 2, "the nearest name is 'alignment'");
  expect_refusal({"explain", "qqqqqqq"}, 2, "nothing is called 'qqqqqqq'; trainer list");
}

TEST_F(Explain, FindsTheStatementsThatAToggleAnswers) {
  const std::string card = run({"explain", "amp"}).out, source = "source:    ";
  const std::string statement = card.substr(card.find(source) + source.size());
  const std::string number = statement.substr(0, statement.find(' '));
  EXPECT_THAT(run({"explain", number}).out,
              AllOf(StartsWith(statement.substr(0, statement.find('\n'))), HasSubstr("amp")));
  EXPECT_THAT(run({"explain", "S1:46"}).out,
              AllOf(HasSubstr("\n  shown by:  `lesson deeplab_workers`, `num_workers`\n"),
                    HasSubstr("\n  source:    2.08x; "), HasSubstr("\n  holds:     yes\n"),
                    HasSubstr("\n  lesson:    trainer lesson deeplab_workers\n")));
  EXPECT_THAT(run({"explain", "S1:51"}).out, AllOf(HasSubstr(" | "), Not(HasSubstr("\\"))));
  EXPECT_THAT(run({"explain", "S1:99999"}).err, HasSubstr("nothing is called"));
}

TEST_F(Explain, WritesTopicsIn80Columns) {
  for (const auto& [topic, begins, ends] :
       {std::tuple("blas", "The symptom (S0:17)",
                   "lessons: blas: Which library multiplies the matrices?\n"),
        {"vram", "A device whose memory is full", "lessons: vram: Memory in use is not load\n"},
        {"Alignment", "Tensor Cores multiply tiles", "trainer explain pad_channels\n"}}) {
    const std::string out = succeed({"explain", topic});
    EXPECT_THAT(out, StartsWith(begins));
    EXPECT_THAT(out, EndsWith(ends));
    expect_80_columns(out);
  }
}

// The card of a toggle names files, a counter and results, as far as there are any. What only a GPU
// could measure and no report does is experimental.
TEST_F(Explain, LeadsFromEachToggleToItsCode) {
  const std::string results = read(source_dir() + "/docs/results.md");
  int marked = 0;
  for (const Toggle& toggle : toggles()) {
    const std::string card = succeed({"explain", toggle.name}),
                      places = list_places(toggle.footprint);
    EXPECT_THAT(places, HasSubstr(":")) << toggle.footprint << " is counted nowhere";
    for (const std::string& text :
         {"\n  card:      " + toggle.file, cat("\n  code:      ", toggle.code),
          "\n  counted:   " + places.substr(0, places.find(',')),
          std::string("\n  elsewhere: PyTorch: ")})
      EXPECT_THAT(card, HasSubstr(text));
    expect_80_columns(card.substr(0, card.find("\n  measure: ")));
    const bool measured = results.find("| `" + toggle.name + "=") != results.npos;
    const bool experimental = std::ranges::count(toggle.needs, "cuda") && !measured;
    EXPECT_EQ(card.find("\n  status:    experimental: ") != card.npos, experimental) << card;
    marked += experimental;
  }
  EXPECT_TRUE(marked > 0 && marked < std::ssize(toggles())) << marked;
  EXPECT_THAT(succeed({"explain", "batch_lanes"}),
              AllOf(HasSubstr("\n  no gain:   trainer ab --toggle batch_lanes --config configs/"),
                    HasSubstr("\n  measured:  batch_lanes=on faster: ")));
}

TEST_F(Explain, KnowsEveryCounterOfTheProgram) {
  const std::string places = kCounterPlaces;
  std::set<std::string> counted;
  std::istringstream lines(places);
  for (std::string name, place; lines >> name >> place; counted.insert(name)) {
    EXPECT_TRUE(find_topic(name)) << name << " has no line in docs/topics.md";
    const size_t colon = place.find(':');
    std::istringstream file(read(source_dir() + "/" + place.substr(0, colon)));
    std::string line;
    for (int i = std::stoi(place.substr(colon + 1)); i > 0; --i) std::getline(file, line);
    EXPECT_THAT(line, HasSubstr("\"" + name + "\"")) << place;
  }
  EXPECT_GT(counted.size(), 90u);
  for (const Topic& line : topics())
    EXPECT_TRUE(!line.counter || counted.contains(line.name) ||
                line.name.find('*') != line.name.npos)
        << line.name << " is in docs/topics.md, but nothing counts it";
  EXPECT_THAT(
      succeed({"explain", "dist.buckets"}),
      AllOf(HasSubstr("collectives of gradients"), HasSubstr("counted in: dist/reducer.cpp:"),
            HasSubstr("footprint of the toggle ddp")));
  EXPECT_THAT(succeed({"explain", "lock.queue.wait_ns"}), HasSubstr("nanoseconds"));
}

// Files and commands after "See:" exist, and each name of a topic leads to it.
TEST_F(Explain, KnowsTheWordsOfTheCourse) {
  const std::string words =
      "GradScaler,DataLoader,bucket,batch_cost,reader_cost,ips,footprint,placebo,roofline,MFU,"
      "overlap,all-reduce,straggler,Tensor Cores,mixed precision,launch overhead,kernel fusion,"
      "pinned memory,NUMA,Amdahl,oversubscription,confidence interval,micro-batch,gpu utilization,"
      "Winograd";
  for (const std::string& word : split(words))
    EXPECT_THAT(succeed({"explain", word}), HasSubstr("\n\n    ")) << word;
  std::set<std::string> names;
  for (const Topic& topic : topics()) {
    Names all = topic.others;
    all.push_back(topic.name);
    for (const std::string& name : all)
      EXPECT_TRUE(names.insert(folded(name)).second) << name << " names two topics";
    std::istringstream items(
        topic.text.substr(std::min(topic.text.find("See: "), topic.text.size())));
    for (std::string item; std::getline(items >> std::ws, item, ',');) {
      if (item.starts_with("See: ")) item.erase(0, 5);
      const bool command = item.starts_with("trainer ");
      EXPECT_TRUE(command || std::filesystem::is_regular_file(source_dir() + "/" + item)) << item;
      if (item.starts_with("trainer explain ")) succeed({"explain", item.substr(16)});
    }
  }
  EXPECT_GT(names.size(), 100u);
}

TEST_F(Explain, ListsEveryCollectionAndTogglesByKeyPointIn80Columns) {
  const std::string list = "\n" + succeed({"list", "toggles"}), all = succeed({"list"});
  expect_80_columns(list);
  for (const Toggle& toggle : toggles()) {
    EXPECT_THAT(list, HasSubstr("\n" + toggle.key_point + " "));
    const size_t at = list.find(" " + toggle.name + " "), end = list.find('\n', at);
    ASSERT_NE(at, list.npos) << toggle.name;
    EXPECT_THAT(list.substr(at, end - at), EndsWith(toggle.what));
    const std::string why = no_effect(toggle);
    EXPECT_EQ(list[at - 1] == ' ', why.empty()) << toggle.name;
    if (!why.empty()) {
      EXPECT_THAT(list, HasSubstr(cat("\n", list[at - 1], " ", why, "\n")));
    }
  }
  for (const char* table : {"topics", "counters", "ops"})
    expect_80_columns(succeed({"list", table}));
  EXPECT_THAT(all, HasSubstr("\nops:\nop "));
  for (const char* entry : {"num_workers", "lenet", "digits", "mnist", "conv2d", "sgd", "cosine",
                            "normalize", "predict", "conv_act_pool"})
    EXPECT_THAT(all, HasSubstr(entry));
  EXPECT_THAT(run({"list", "toggles", "--markdown"}).out,
              HasSubstr("| num_workers | data reading |"));
  expect_refusal({"list", "togles"}, 2, "the nearest one is 'toggles'");
}
