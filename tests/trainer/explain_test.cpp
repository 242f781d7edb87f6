// `trainer list` and `trainer explain`: names in any case and of other tools, cards, topics.
#include <gmock/gmock.h>
#include "plan/toggle.h"
#include "tests/place.h"
#include "tests/trainer/program.h"

using namespace bellows;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

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
       {"option of models: resnet18: width = 64 (a whole number from 1 to 65536): ",
        "option of models: resnet50: width"}},
      {"resnet18", {"\n  stem = auto (auto or imagenet or cifar): 7x7 stride 2"}},
      {"matmul", {"op matmul"}},
      {"conv2d",
       {"op conv2d: y[k,i,j] = ", "\n  proved for: padding 1, ",
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
  expect_refusal({"explain", "foobar"}, 2, "nothing is called 'foobar'; trainer list");
}

TEST_F(Explain, FindsTheStatementsThatAToggleAnswers) {
  const std::string card = run({"explain", "amp"}).out, source = "source:    ";
  const std::string statement = card.substr(card.find(source) + source.size());
  const std::string number = statement.substr(0, statement.find(' '));
  EXPECT_THAT(run({"explain", number}).out,
              AllOf(StartsWith(statement.substr(0, statement.find('\n'))), HasSubstr("amp")));
  EXPECT_THAT(run({"explain", "S1:99999"}).err, HasSubstr("nothing is called"));
}

TEST_F(Explain, MarksWhatOnlyAGpuCouldMeasureAndNoReportDoesAsExperimental) {
  int marked = 0;
  const std::string results = read(source_dir() + "/docs/results.md");
  for (const Toggle& toggle : toggles()) {
    const bool measured = results.find("| `" + toggle.name + "=") != results.npos;
    const bool experimental = std::ranges::count(toggle.needs, "cuda") && !measured;
    const std::string card = run({"explain", toggle.name}).out;
    EXPECT_EQ(card.find("\n  status:    experimental: ") != card.npos, experimental) << card;
    marked += experimental;
  }
  EXPECT_GT(marked, 0);
  EXPECT_LT(marked, std::ssize(toggles()));
}

TEST_F(Explain, WritesTopicsIn80Columns) {
  for (const auto& [topic, begins, ends] :
       {std::tuple("blas", "The symptom (S0:17)", "or OPENBLAS_NUM_THREADS.\n"),
        {"vram", "A device whose memory is full", "(ips) fall.\n"},
        {"Alignment", "Tensor Cores multiply tiles", "trainer explain pad_channels\n"}}) {
    const std::string out = succeed({"explain", topic});
    EXPECT_THAT(out, StartsWith(begins));
    EXPECT_THAT(out, testing::EndsWith(ends));
    expect_80_columns(out);
  }
}

TEST_F(Explain, ListsEveryCollection) {
  const std::string all = run({"list"}).out;
  for (const char* entry : {"num_workers", "lenet", "digits", "mnist", "conv2d", "sgd", "cosine",
                            "normalize", "predict", "conv_act_pool"})
    EXPECT_THAT(all, HasSubstr(entry));
  EXPECT_THAT(run({"list", "toggles", "--markdown"}).out,
              HasSubstr("| num_workers | data reading |"));
  expect_refusal({"list", "togles"}, 2, "the nearest one is 'toggles'");
}
