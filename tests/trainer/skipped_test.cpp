// Updates that are skipped because their gradients are not finite: running statistics stay finite,
// log lines count them, and a run in which all are skipped ends.
#include <cmath>
#include <nlohmann/json.hpp>
#include "core/tensor/copy.h"
#include "core/tensor/safetensors.h"
#include "tests/data/image_files.h"
#include "tests/place.h"
#include "tests/trainer/rank_programs.h"

using namespace bellows;

namespace {

class SkippedProgram : public RankPrograms {
 protected:
  // Two classes of 24 images to train on, red and blue. The first of each class is black, so its
  // logarithm is infinite.
  SkippedProgram() {
    for (const char* split : {"train", "val"})
      for (const bool red : {true, false})
        for (int i = 0; i < (split[0] == 't' ? 24 : 4); ++i) {
          Pixels image{8, 8, 3, {}};
          const bool black = split[0] == 't' && i == 0;
          for (int k = 0; k < 64; ++k) {
            const auto v = uint8_t(60 + (37 * k + 11 * i) % 120);
            for (const int c : {v + (red ? 60 : 0), int(v), v + (red ? 0 : 60)})
              image.bytes.push_back(black ? 0 : uint8_t(c));
          }
          write(cat("set/", split, red ? "/red/" : "/blue/", i, ".png"), as_png(image));
        }
  }
  static Args on_images(const Args& more) {
    return tiny(
        with({"model={name: layers, layers: [log, {name: conv2d, out: 8, kernel: 3}, "
              "batch_norm, relu, flatten, {name: linear, out: 2}]}",
              "data={name: image_folder, root: set, batch_size: 8, transforms: [{name: resize, "
              "size: 8}, {name: center_crop, size: 8}, {name: normalize, mean: [0, 0, 0], std: "
              "[1, 1, 1]}]}",
              "optimizer={name: sgd, lr: 0.05}", "train.epochs=3", "train.on_nonfinite=skip"},
             more));
  }
  // Gradients of sqrt at 0 are infinite, and those before it NaN.
  static Args never_applied(const Args& more) {
    return tiny(with({"model={name: layers, layers: [flatten, {name: linear, out: 16}, relu, sqrt, "
                      "{name: linear, out: 10}]}",
                      "optimizer={name: sgd, lr: 0.05, clip_norm: 1}"},
                     more));
  }
};

}  // namespace

// In each epoch one black image is among rank 0's samples, and one among rank 1's.
TEST_F(SkippedProgram, OneBlackImageLeavesTheRunningStatisticsOfAllRanksFinite) {
  for (const Args& more : {Args{"optimizer.ema_decay=0.5"},
                           {"model.sync_bn=true", "toggles={gradient_accumulation: 2}"},
                           {"toggles={ddp: off}"}}) {
    const Args args =
        with(on_images(more), {"data.shuffle=false", "--overwrite", "--run-dir", "out"});
    for (const Ended& ended : run_ranks(2, args)) EXPECT_EQ(ended.code, 0) << ended.err;
    const std::string last = checkpoints("out").back();
    for (const NamedTensor& t : read_safetensors(folder_ / "out/checkpoints" / last).tensors) {
      const Tensor values = cast(t.tensor, DType::f64);
      for (const double value : values.data<double>())
        ASSERT_TRUE(std::isfinite(value)) << t.name << " " << testing::PrintToString(more);
    }
  }
}

// ---- log lines

TEST_F(SkippedProgram, ALogWindowHasTheMeanOfItsFiniteLossesAndTheCountOfTheOthers) {
  EXPECT_THAT(succeed(on_images({"log={every: 1, tensorboard: false}"})),
              AllOf(HasSubstr("updates skipped, because"),
                    HasSubstr("test: accuracy: 1.0000, loss: 0."), Not(HasSubstr("loss: nan\n"))))
      << "one black image leaves the running statistics finite";
  double sum = 0, count = 0, others = 0;
  for (const Json& row : rows("runs/run", "train"))
    if (row["epoch"] == 1)
      row["loss"].is_null() ? ++others : (++count, sum += row["loss"].get<double>());
  EXPECT_GT(others, 0);
  const Ended ended = run(on_images({"log={every: 6, tensorboard: false}", "--overwrite"}));
  const Json first = rows("runs/run", "train").at(0);
  EXPECT_EQ(first["step"], 6);
  EXPECT_NEAR(first["loss"].get<double>(), sum / count, 1e-9);
  EXPECT_EQ(first["nonfinite_losses"], others);
  EXPECT_THAT(ended.out,
              HasSubstr(cat(", non-finite losses: ", others, ", skipped updates: ", others, "\n")));
}

// ---- updates that are skipped one after the other

TEST_F(SkippedProgram, EndsWhereClippingSkipsEveryUpdate) {
  const Ended ended = run(never_applied({}));
  EXPECT_EQ(ended.code, 5) << ended.out;
  EXPECT_THAT(ended.err, AllOf(HasSubstr("step 6: 6 updates skipped in a row, because gradients "
                                         "were not finite; lower the learning rate"),
                               Not(HasSubstr("loss scale"))));
  EXPECT_THAT(ended.out, HasSubstr(" | ETA 00:00:00, skipped updates: 2\n"));
  if (!has_labs()) return;
  EXPECT_THAT(run({"diagnose", "runs/run"}).out,
              HasSubstr("6 of 6 updates skipped, because gradients were not finite."));
}

TEST_F(SkippedProgram, TakesAsManySkippedUpdatesAsNonFiniteLossesUnlessARunEndsBefore) {
  expect_refusal(never_applied({"train.max_iters=3"}), 5, "step 3: 3 updates skipped in a row");
  expect_refusal(never_applied({"train.epochs=3", "train.max_nonfinite=7", "--overwrite"}), 5,
                 "step 8: 8 updates");
  succeed(never_applied({"train.on_nonfinite=skip", "--overwrite"}));
}

// ---- how a NaN is printed

TEST_F(SkippedProgram, PrintsNanWithoutASign) {
  EXPECT_THAT(succeed(tiny({"optimizer.lr=1e38", "train.on_nonfinite=continue"})),
              AllOf(HasSubstr(" loss: nan"), Not(HasSubstr("-nan"))));
  write("x.png", as_png(slopes(28, 28, 1)));
  EXPECT_THAT(run({"predict", "runs/run", "x.png"}).out,
              AllOf(HasSubstr(": nan"), Not(HasSubstr("-nan"))));
  EXPECT_THAT(run({"eval", "runs/run"}).out, AllOf(HasSubstr(": nan"), Not(HasSubstr("-nan"))));
  expect_refusal(tiny({"optimizer.lr=1e38", "--overwrite"}), 5, "the loss is nan");
}
