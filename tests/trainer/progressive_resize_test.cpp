// Training on images that grow: the sizes that the model sees, resume, memory, kernels and the log.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include "core/base/json.h"
#include "core/base/trace.h"
#include "models/module/build.h"
#include "tests/refusal.h"
#include "tests/trainer/program.h"
#include "tests/trainer/runs.h"

using namespace bellows;
using testing::HasSubstr;

namespace {

// Side of the images that a model has seen, and whether it was training.
struct Seen {
  int64_t side;
  bool training;
  bool operator==(const Seen&) const = default;
};
std::vector<Seen>& seen() {
  static std::vector<Seen> all;
  return all;
}

class Witness : public Module {
 public:
  const char* kind() const override { return "test_witness"; }

 protected:
  Tensor forward(const Tensor& x) override {
    EXPECT_EQ(x.dim(2), x.dim(3));
    if (seen().empty() || !(seen().back() == Seen{x.dim(2), training()}))
      seen().push_back({x.dim(2), training()});
    return x;
  }
};
const AddEntry<MakeLayer> witness(
    "test_witness", "of tests",
    +[](const NoOptions&, LayerContext&) -> ModulePtr { return std::make_unique<Witness>(); });

// Six updates per epoch, with images of 16 x 16, 24 x 24 and 32 x 32.
Plan growing_plan(const Values& more = {}) {
  return plan_of({{"data.name", {"shapes"}},
                  {"data.train_size", {"24"}},
                  {"data.test_size", {"8"}},
                  {"data.batch_size", {"4"}},
                  {"data.transforms.0.name", {"random_resized_crop"}},
                  {"data.transforms.0.size", {"32"}},
                  {"data.transforms.1.name", {"progressive_resize"}},
                  {"data.transforms.1.from", {"16"}},
                  {"data.transforms.1.step", {"8"}},
                  {"data.transforms.1.last_epoch", {"3"}},
                  {"data.transforms.2.name", {"random_flip"}},
                  {"data.transforms.3.name", {"normalize"}},
                  {"model.name", {"layers"}},
                  {"model.layers.0.name", {"test_witness"}},
                  {"model.layers.1.name", {"conv2d"}},
                  {"model.layers.1.out", {"4"}},
                  {"model.layers.2.name", {"batch_norm"}},
                  {"model.layers.3.name", {"adaptive_avg_pool2d"}},
                  {"model.layers.4.name", {"flatten"}},
                  {"model.layers.5.name", {"linear"}},
                  {"model.layers.5.out", {"10"}},
                  {"optimizer.momentum", {"0.9"}},
                  {"train.epochs", {"4"}},
                  {"log.every", {"3"}},
                  {"eval.every", {"0"}},
                  {"threads.threads", {"1"}}},
                 more);
}

}  // namespace

TEST(GrowingImages, ReachTheModelAndEvaluationIsAtFullSize) {
  seen().clear();
  run(growing_plan({{"eval.every", {"1"}}}));
  EXPECT_EQ(seen(), (std::vector<Seen>{{16, true},
                                       {32, false},
                                       {24, true},
                                       {32, false},
                                       {32, true},
                                       {32, false},
                                       {32, true},
                                       {32, false}}));
}

TEST(GrowingImages, ResumedAtAnyStepEndWithTheSameBits) {
  const Plan plan = growing_plan();
  const std::string whole = run(plan).hash;
  for (const int64_t step : {3, 6, 9, 13}) {
    const SafeTensors saved = saved_at(step, plan);
    Session session(plan);
    seen().clear();
    EXPECT_EQ(resume(session, saved).hash, whole) << step;
    EXPECT_EQ(seen().front().side, step < 6 ? 16 : step < 12 ? 24 : 32);
  }
}

TEST(GrowingImages, HaveTheSameBitsForAnyNumberOfWorkers) {
  EXPECT_EQ(run(growing_plan({{"data.num_workers", {"2"}},
                              {"data.prefetch_factor", {"2"}},
                              {"data.persistent_workers", {"true"}}}))
                .hash,
            run(growing_plan()).hash);
}

// The largest images come last, but the dry run tries them first.
TEST(GrowingImages, AfterADryRunGrowWithoutSystemCalls) {
  for (const bool dry_run : {false, true}) {
    std::vector<int64_t> calls;
    seen().clear();
    run(growing_plan(
            {{"allocator.caching", {"true"}}, {"train.dry_run", {dry_run ? "true" : "false"}}}),
        [&](const Position&) { calls.push_back(allocator_stats(Device::cpu).system_calls); });
    EXPECT_EQ(seen().front().side, dry_run ? 32 : 16);
    ASSERT_EQ(calls.size(), 24u);
    EXPECT_EQ(calls.back() == calls[11], dry_run) << calls[11] << " to " << calls.back();
    configure_allocator(Device::cpu, {.caching = false});
  }
}

// One convolution that needs no gradient of its images: two problems for each size.
TEST(GrowingImages, OpenTheTuningWindowForEachSize) {
  char folder[] = "/tmp/bellows_growing_XXXXXX";
  setenv("XDG_CACHE_HOME", mkdtemp(folder), 1);
  std::vector<int64_t> searches;
  int64_t last = trace::counter("autotune.searches").value();
  run(growing_plan({{"kernels.autotune", {"benchmark"}},
                    {"train.tuning_window.0", {"2"}},
                    {"train.tuning_window.1", {"3"}}}),
      [&](const Position&) {
        const int64_t now = trace::counter("autotune.searches").value();
        searches.push_back(now - std::exchange(last, now));
      });
  std::vector<int64_t> wanted(24);
  wanted[1] = wanted[7] = wanted[13] = 2;
  EXPECT_EQ(searches, wanted);
}

// ---- models

TEST(GrowingImages, NeedAModelThatIsTheSameForAllSizes) {
  EXPECT_EQ(
      refusal([] {
        Session(growing_plan({{"model.layers.3.name", {"max_pool2d"}}}));
      }),
      "model layers: 5.weight is [10,900] for images of [3,32,32] and [10,196] for [3,16,16]; "
      "remove progressive_resize, or use a model that ends in a mean over the image "
      "(adaptive_avg_pool2d) and has no option that depends on the size (model.stem: auto)");
  EXPECT_THAT(refusal([] {
                Session(growing_plan({{"model.layers.1.kernel", {"17"}}}));
              }),
              HasSubstr("model layers does not accept images of [3,16,16], the smallest that "
                        "progressive_resize makes of [3,32,32]: layer '1': "));
  // Pooled to 3 x 3, the features have the same size for all images.
  Session(growing_plan({{"model.layers.3.size", {"3"}}}));
}

TEST(GrowingImages, TrainEveryResNetAndNoLeNet) {
  const Values layers = dump(growing_plan());
  Values values;
  for (const auto& [key, value] : layers)
    if (!key.starts_with("model")) values[key] = value;
  for (const char* model : {"lenet", "mlp", "levels_mlp"}) {
    values["model"] = {model};
    EXPECT_THAT(refusal([&] { Session(load(Plan{}, values)); }), HasSubstr(cat("model ", model)));
  }
  values["model"] = {"resnet18"};
  values["model.width"] = {"2"};
  run(load(Plan{}, values));
}

TEST(GrowingImages, BeyondSixtyFourPixelsNeedAFixedStem) {
  Values values;
  for (const auto& [key, value] : dump(growing_plan({{"data.transforms.0.size", {"64"}}})))
    if (!key.starts_with("model")) values[key] = value;
  values["model"] = {"resnet18"};
  values["model.width"] = {"2"};
  EXPECT_THAT(refusal([&] { Session(load(Plan{}, values)); }),
              HasSubstr("conv1.weight is [2,3,7,7] for images of [3,64,64] and [2,3,3,3] for "));
  for (const char* stem : {"imagenet", "cifar"}) {
    values["model.stem"] = {stem};
    Session(load(Plan{}, values));
  }
}

// ---- the log

class GrowingProgram : public Program {};

TEST_F(GrowingProgram, ReportsTheSizeOfEachEpoch) {
  const Ended ended = run(tiny({"model={name: resnet18, width: 2}",
                                "data.transforms=[{name: progressive_resize, from: 20, step: 8, "
                                "last_epoch: 2}, normalize]"}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("images: epoch: 1, size: 20x20\n"));
  EXPECT_THAT(ended.out, HasSubstr("images: epoch: 2, size: 28x28\n"));
  std::istringstream lines(read("runs/run/metrics.jsonl"));
  std::vector<double> sizes;
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line);
    ASSERT_TRUE(json.contains("split")) << line;
    if (json["split"] == "train") sizes.push_back(json.value("image_size", -1.0));
  }
  EXPECT_EQ(sizes, (std::vector<double>{20, 20, 28, 28}));
  EXPECT_THAT(run(tiny({})).out, testing::Not(HasSubstr("images: epoch")));
}

TEST_F(GrowingProgram, RefusesAModelOfOneSizeBeforeItTrains) {
  expect_refusal(tiny({"model=lenet",
                       "data.transforms=[{name: progressive_resize, from: 20, "
                       "step: 8, last_epoch: 2}, normalize]"}),
                 2, "fc1.weight is [120,400] for images of [1,28,28] and [120,144] for [1,20,20]");
}

// Refused before there is a run folder.
TEST_F(GrowingProgram, RefusesPaddingAndAStemThatChoosesBeforeItTrains) {
  const std::string grow = "{name: progressive_resize, from: 20, step: 4, last_epoch: 2}";
  expect_refusal(tiny({cat("data.transforms=[{name: random_crop, size: 28, padding: 2}, ", grow,
                           ", normalize]")}),
                 2, "transform progressive_resize: the image has padding already");
  expect_refusal(tiny({"model={name: resnet18, width: 2}",
                       cat("data.transforms=[{name: resize, size: 64}, ", grow, ", normalize]")}),
                 2, "has no option that depends on the size (model.stem: auto)");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));
}
