// Rows of tables and arrays of NumPy through every verb of the real program.
#include <nlohmann/json.hpp>
#include "tests/data/files.h"
#include "tests/trainer/program.h"

using namespace bellows;

namespace {

class TablesTest : public Program {
 protected:
  static Args training(const std::string& data, int out, const std::string& loss,
                       const std::string& metric) {
    return {cat("model={name: layers, layers: [{name: linear, out: ", out, "}]}"),
            "data=" + data,
            "loss.name=" + loss,
            cat("eval.metrics=[", metric, "]"),
            "optimizer={name: adamw, lr: 0.2}",
            "log.tensorboard=false"};
  }
  // Trains, evaluates, exports, and resumes in the middle. Expects the metric to be near 1.
  void go_through(const Args& args, const std::string& metric, const std::string& run) {
    const std::string whole = succeed(with({"train", "--run-dir", run, "train.epochs=30"}, args));
    EXPECT_GE(rows(run, "test").back()[metric].get<double>(), 0.95);
    EXPECT_THAT(succeed({"eval", run}), HasSubstr(metric));
    succeed({"export", run, run + ".safetensors"});
    succeed(with({"train", "--run-dir", run + "half", "train.epochs=15"}, args));
    EXPECT_EQ(hash_in(succeed({"train", "--resume", run + "half", "train.epochs=30"})),
              hash_in(whole));
  }
};

TEST_F(TablesTest, RowsOfClassesAndOfValuesGoThroughEveryVerb) {
  std::string csv = "width,colour,kind,price\n";
  for (int i = 0; i < 200; ++i) {
    const bool red = i % 3 == 0;
    csv += cat(i % 17, red ? ",red," : ",blue,", i % 17 > 8 ? "large," : "small,",
               2 * (i % 17) + (red ? 5 : 0), "\n");
  }
  write("t.csv", csv);
  const std::string data = "{name: csv, file: t.csv, batch_size: 20, target: ";
  const Args classes =
      training(data + "kind, inputs: [width, colour]}", 2, "cross_entropy", "accuracy");
  go_through(classes, "accuracy", "kinds");
  const Args values =
      training(data + "price, target_is: values, inputs: [width, colour]}", 1, "mse", "r2");
  go_through(values, "r2", "prices");

  write("new.csv", "width,colour\n1,red\n16,blue\n");
  EXPECT_THAT(succeed({"predict", "kinds", "new.csv", "--json"}),
              ContainsRegex("\"small\"(.|\n)*\"large\""));
  EXPECT_THAT(succeed({"predict", "prices", "new.csv"}), HasSubstr("]\n["));
  const Args arms = {"ab",      "--toggle", "fused_optimizer", "--processes", "2", "--blocks", "2",
                     "--steps", "3",        "--config",        "values.yaml"};
  write("values.yaml", read("prices/plan.yaml"));
  EXPECT_THAT(succeed(arms), HasSubstr("`optim.fused_launches` counted 0 with it off"));
}

TEST_F(TablesTest, ArraysOfTwelveClassesGoThroughEveryVerb) {
  std::vector<double> x;
  std::vector<int16_t> y;
  for (int i = 0; i < 240; ++i) {
    y.push_back(int16_t(i % 12));
    for (int k = 0; k < 12; ++k) x.push_back(k == i % 12 ? 1 + 0.001 * i : 0.1);
  }
  write("x.npy", npy("<f8", "240, 12", data_of(x)));
  write("y.npy", npy("<i2", "240,", data_of(y)));
  const std::string data = "{name: npy, x: x.npy, y: y.npy, batch_size: 20}";
  go_through(training(data, 12, "cross_entropy", "accuracy"), "accuracy", "twelve");
  x.resize(12);
  write("one.npy", npy("<f8", "1, 12", data_of(x)));
  EXPECT_THAT(succeed({"predict", "twelve", "one.npy", "--json"}), HasSubstr("\"class\":0"));
}

}  // namespace
