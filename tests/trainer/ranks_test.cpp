// Training on several ranks, each a process of the real program, as a launcher starts them.
#include <sys/resource.h>
#include <unistd.h>
#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>
#include "core/tensor/copy.h"
#include "core/tensor/safetensors.h"
#include "plan/toggle.h"
#include "tests/data/image_files.h"
#include "tests/trainer/rank_programs.h"
#include "tests/worse.h"

using namespace bellows;
namespace fs = std::filesystem;
using testing::Each;

namespace {

class RanksTest : public RankPrograms {
 protected:
  // Largest difference between values of the last checkpoints of two runs, relative to 0.1 +
  // |value|.
  double distance(const std::string& a, const std::string& b) const {
    const auto last = [&](const std::string& run) {
      return read_safetensors(folder_ / run / "checkpoints" / checkpoints(run).back());
    };
    const SafeTensors x = last(a), y = last(b);
    if (x.tensors.size() != y.tensors.size()) return INFINITY;
    double worst = 0;
    for (size_t i = 0; i < x.tensors.size(); ++i) {
      const Tensor u = cast(x.tensors[i].tensor, DType::f64),
                   v = cast(y.tensors[i].tensor, DType::f64);
      for (int64_t k = 0; k < u.numel(); ++k)
        worst = worse(worst, std::abs(u.ptr<double>()[k] - v.ptr<double>()[k]) /
                                 (0.1 + std::abs(u.ptr<double>()[k])));
    }
    return worst;
  }

  // Expects the same tensors in the last checkpoints of two runs, up to the rounding of sums in
  // another order, and the same losses and metrics.
  void expect_close(const std::string& a, const std::string& b, double tolerance = 1e-4) const {
    SCOPED_TRACE(a + " and " + b);
    EXPECT_LT(distance(a, b), tolerance);
    for (const char* split : {"train", "test"}) {
      const std::vector<Json> of_a = rows(a, split), of_b = rows(b, split);
      ASSERT_EQ(of_a.size(), of_b.size()) << split;
      for (size_t i = 0; i < of_a.size(); ++i)
        for (const char* key :
             {"step", "loss", "loss.cross_entropy", "loss.l1", "accuracy", "accuracy_top5", "lr"})
          if (of_a[i].contains(key)) {
            const auto u = of_a[i][key].get<double>(), v = of_b[i][key].get<double>();
            EXPECT_NEAR(u, v, tolerance * (0.1 + std::abs(u))) << split << " " << i << " " << key;
          }
    }
  }

  // LeNet on digits; `data` has no braces.
  static Args lenet(const std::string& folder, const std::string& data, const Args& more = {}) {
    return tiny(with({"model=lenet", cat("data={name: digits, test_size: 21, ", data, "}"),
                      "optimizer={name: sgd, lr: 0.05, momentum: 0.9}", "--run-dir", folder},
                     more));
  }

  // ResNet-18 on images of 16 x 16, by default in joint batches of 16, 16 and 13.
  static Args resnet(const std::string& folder, int world, const Args& more = {},
                     int samples = 45) {
    return with({"train", "model={name: resnet18, width: 8}",
                 cat("data={name: shapes, train_size: ", samples, ", test_size: 21, batch_size: ",
                     16 / world, ", transforms: [{name: resize, size: 16}, normalize]}"),
                 "optimizer={name: sgd, lr: 0.05, momentum: 0.9, clip_norm: 1, ema_decay: 0.9}",
                 "train.epochs=1", "log={every: 2, tensorboard: false}", "dist.uneven=join",
                 "--run-dir", folder},
                more);
  }
};

const auto quietly = [](int code) {
  return AllOf(testing::Field("code", &Ended::code, code), testing::Field("err", &Ended::err, ""));
};

// Ends with that code, and a message that contains the text.
const auto fails = [](int code, const std::string& text) {
  return AllOf(testing::Field("code", &Ended::code, code),
               testing::Field("err", &Ended::err, HasSubstr(text)));
};

}  // namespace

// ---- the same training

TEST_F(RanksTest, TwoGiveTheBitsOfOneThatAccumulatesTheirBatches) {
  const std::string one = train(1, lenet("one", "train_size: 64, batch_size: 16",
                                         {"toggles={gradient_accumulation: 2}"})),
                    two = train(2, lenet("two", "train_size: 64, batch_size: 8"));
  EXPECT_EQ(hash_in(one), hash_in(two));
  EXPECT_THAT(
      two,
      HasSubstr("ranks: 2 (gloo, shared memory), global batch 16 = 2 x 8; ips counts all ranks"));
}

// 70 samples: 4 rounds of 16, and 6 samples. With 4 ranks of 4 and 65, one sample is left. Not seed
// 1: there rounding decides which of two nearly equal values a pooling window takes.
TEST_F(RanksTest, GiveTheParametersOfOneForUnevenData) {
  for (const std::string uneven : {"drop", "join"})
    for (const int samples : {70, 65}) {
      const auto given = [&](const char* kind, int world, const char* toggles) {
        return lenet(cat(uneven, samples, kind, world),
                     cat("train_size: ", samples, ", batch_size: ", 16 / world),
                     {"seed=2", "dist.uneven=" + uneven, toggles});
      };
      for (const int world : {1, 2, 4})
        train(world, given("of", world, "toggles={gradient_accumulation: 2}"));
      train(4, given("dp", 4, "toggles={ddp: off}"));
      for (const char* other : {"of2", "of4", "dp4"})
        expect_close(cat(uneven, samples, "of1"), cat(uneven, samples, other));
    }
  EXPECT_EQ(rows("join65of4", "train").back()["step"], 10);
  EXPECT_EQ(rows("drop65of4", "train").back()["step"], 8);
}

// The last update has one sample, so the second rank adds nothing to the terms of its loss.
TEST_F(RanksTest, LogTheTermsOfALossAsOneDoesForUnevenData) {
  const char* const sum = "loss={name: sum, terms: [{name: cross_entropy}, {name: l1, weight: 2}]}";
  for (const int world : {1, 2})
    train(world, lenet(cat("terms", world), cat("train_size: 33, batch_size: ", 16 / world),
                       {"seed=2", "dist.uneven=join", sum}));
  EXPECT_TRUE(rows("terms1", "train").at(0).contains("loss.l1"));
  expect_close("terms1", "terms2");
}

// ---- the same training, variant by variant

namespace {

// Options of an update that the ranks have to agree about.
struct Variant {
  std::string name, toggles;  // beside those that all variants have
  std::vector<std::string> options;
  std::string printed = {};  // by rank 0
  double tolerance = 1e-4;   // of four ranks, whose sums are in another order
};
const Variant kVariants[] = {
    {"Clipping", "", {"optimizer.clip_norm=0.05"}},
    {"Ema", "", {"optimizer.ema_decay=0.9"}},
    {"WorkersAndLossesReadInEachUpdate", ", num_workers: 2, sync_free_logging: off", {}},
    {"Bf16", ", amp: bf16", {}},
    {"Fp16", ", amp: fp16", {"amp.scaler.backoff_factor=0.0625"}, " of 8 updates skipped"},
    {"Dp", ", ddp: off", {"optimizer.ema_decay=0.9"}, "dp: rank 0 reads the batches of all ranks"},
};

class RankVariants : public RanksTest, public testing::WithParamInterface<Variant> {
 protected:
  // Joint batches of 16: on several ranks, or in one that adds up `parts` micro-batches. The loss
  // of a micro-batch has a smaller share. So under fp16 its first scale is larger, and the same
  // gradients overflow.
  std::string train_variant(const std::string& folder, int world, int parts) {
    const Variant& v = GetParam();
    Args more = {cat("toggles={gradient_accumulation: ", parts, v.toggles, "}")};
    more.insert(more.end(), v.options.begin(), v.options.end());
    if (v.name == "Fp16") more.push_back(cat("amp.scaler.init_scale=", (1 << 24) * parts));
    return train(world, lenet(folder, cat("train_size: 64, batch_size: ", 16 / world), more));
  }
};
INSTANTIATE_TEST_SUITE_P(Of, RankVariants, testing::ValuesIn(kVariants),
                         [](const auto& info) { return info.param.name; });

}  // namespace

TEST_P(RankVariants, GiveTheParametersOfOneThatAccumulatesTheirBatches) {
  if (GetParam().name == "Bf16")
    if (const std::string why = no_effect(*find_toggle("amp"), DeviceChoice::cpu, "bf16");
        !why.empty())
      GTEST_SKIP() << why;
  const std::string two = train_variant("two", 2, 1);
  EXPECT_EQ(hash_in(two), hash_in(train_variant("in2", 1, 2)));
  train_variant("four", 4, 1);
  train_variant("in4", 1, 4);
  expect_close("in4", "four", GetParam().tolerance);
  EXPECT_THAT(two, HasSubstr(GetParam().printed));
}

// They differ by some 1e-5, but by more where a value near 0 falls on the other side of a relu. So
// one of three seeds has to come close.
TEST_F(RanksTest, OfAResNetWithSyncBnGiveTheParametersOfOne) {
  const Args synced = {"model.sync_bn=true"};
  double closest = 1;
  for (int seed = 2; seed < 5 && closest > 0.01; ++seed) {
    const auto run_of = [&](int world) {
      const std::string folder = cat(world, "_of_", seed);
      return train(world, resnet(folder, world, {synced[0], cat("seed=", seed)}));
    };
    EXPECT_THAT(run_of(1), HasSubstr("model.sync_bn: no effect with a single rank"));
    run_of(2);
    run_of(4);
    closest = std::max(distance(cat("1_of_", seed), cat("2_of_", seed)),
                       distance(cat("1_of_", seed), cat("4_of_", seed)));
  }
  EXPECT_LT(closest, 0.01);
  EXPECT_EQ(hash_in(train(2, resnet("two", 2, synced))),
            hash_in(train(2, resnet("again", 2, synced))));
  EXPECT_THAT(run_ranks(4, resnet("spare", 4, synced, 33)),
              Each(fails(2,
                         "model.sync_bn: with  dist.uneven: join  1 of 4 ranks have a "
                         "sample in the last batch of an epoch; write  dist.uneven: ")));
}

// Each rank has statistics of its own. Those of rank 0 are evaluated everywhere and saved.
TEST_F(RanksTest, OfAResNetWithoutSyncBnEvaluateWithTheStatisticsThatAreSaved) {
  train(1, resnet("one", 1));
  train(2, resnet("two", 2));
  EXPECT_GT(distance("one", "two"), 0.1);
  const Json trained = rows("two", "test").back();
  const std::string alone = succeed({"eval", "two", "--json"});
  EXPECT_NEAR(Json::parse(alone)["loss"].get<double>(), trained["loss"].get<double>(), 1e-5);
}

TEST_F(RanksTest, OneWritesAndPrintsAndReportsTheCostsOfAll) {
  const std::vector<Ended> all = run_ranks(2, lenet("out", "train_size: 64, batch_size: 8"));
  EXPECT_THAT(all, Each(quietly(0)));
  EXPECT_EQ(all[1].out, "");
  const std::string number = "[1-9][0-9.]*";
  EXPECT_THAT(all[0].out,
              ContainsRegex(cat("\nmemory by rank: ", number, ", ", number, " MiB in tensors and ",
                                number, ", ", number, " MiB in the process at the peak\n")));
  for (const Json& row : rows("out", "train")) {
    EXPECT_EQ(row["reader_cost_by_rank"].size(), 2u);
    EXPECT_EQ(row["wait_by_rank"].size(), 2u);
    EXPECT_EQ(row["reader_cost_by_rank"][0], row["reader_cost"]);
    // Within the rounding of the clock: 16 samples per update of both ranks.
    EXPECT_NEAR(row["ips"].get<double>() * row["batch_cost"].get<double>(), 16, 1e-6);
  }
}

// ---- agreement

TEST_F(RanksTest, AreRefusedIfTheirPlansDiffer) {
  const auto all = ends(start_ranks(2, [](int rank) {
    return tiny({cat("optimizer={name: sgd, lr: ", rank ? 0.25 : 0.5, "}")});
  }));
  for (const int rank : {0, 1}) {
    EXPECT_EQ(all[rank].code, 7);
    EXPECT_THAT(
        all[rank].err,  // its own finding, or rank 0's
        AllOf(StartsWith(cat("trainer: rank ", rank, ": ")),
              EndsWith("the ranks differ: optimizer.lr is 0.5 on rank 0, 0.25 on rank 1; start "
                       "all ranks with one program, configuration and data set\n")));
    EXPECT_EQ(all[rank].out, "");
  }
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
}

TEST_F(RanksTest, AreRefusedIfTheirImagesOrInitialWeightsDiffer) {
  for (const int seed : {1, 2}) {
    run(tiny({cat("seed=", seed), "--run-dir", cat("run", seed)}));
    fs::create_directories(folder_ / cat("rank", seed - 1));
    fs::rename(folder_ / cat("run", seed), folder_ / cat("rank", seed - 1) / "weights");
  }
  const auto in_its_folder = [](int rank) {
    if (chdir(cat("rank", rank).c_str()) != 0) _exit(99);
  };
  for (const int rank : {0, 1}) write_images(cat("rank", rank, "/set"), 2);
  write("rank1/set/val/b/0.png", as_png(slopes(8, 9)));
  EXPECT_THAT(run_ranks(2, on_images(), in_its_folder),
              Each(fails(7, "the ranks differ: test set content is ")));
  const auto all = run_ranks(2, tiny({"train.weights=weights"}), in_its_folder);
  EXPECT_THAT(all, Each(fails(7, "the ranks differ: the hash of the state after loading is ")));
  // A rank without the file ends with its own error, and the other one names it.
  fs::remove_all(folder_ / "rank1" / "weights");
  const auto one_fails = run_ranks(2, tiny({"train.weights=weights"}), in_its_folder);
  EXPECT_EQ(one_fails[1].code, 4);
  EXPECT_THAT(one_fails[1].err, StartsWith("trainer: rank 1: "));
  EXPECT_EQ(one_fails[0].code, 7);
  EXPECT_THAT(one_fails[0].err, StartsWith("trainer: rank 0: rank 1: "));
}

TEST_F(RanksTest, SaveAndStopTogetherWhenOneIsAskedAndResumeToTheSameHash) {
  const Args args = lenet("whole", "train_size: 160, batch_size: 8", {"train.epochs=3"});
  const std::string whole = hash_in(train(2, args));
  const Args again = lenet("run", "train_size: 160, batch_size: 8, sim_latency_us: 30000",
                           {"train.epochs=3", "ckpt.every=0", "--resume"});
  const Running ranks = start_ranks(2, [&](int) { return again; });
  ASSERT_TRUE(ranks[0]->says("epoch: 1, iter: 4/10"));
  ranks[1]->send(SIGUSR1);
  ASSERT_TRUE(ranks[0]->says("saved run/checkpoints/step_"));
  ranks[1]->send(SIGTERM);
  const std::vector<Ended> all = ends(ranks);
  EXPECT_THAT(all, Each(quietly(143)));
  EXPECT_THAT(all[0].out, HasSubstr("stopped by SIGTERM after step "));
  EXPECT_EQ(hash_in(train(2, again)), whole);
}

TEST_F(RanksTest, ResumeWithAnotherNumberIfTheGlobalBatchStays) {
  const auto given = [](const std::string& folder, int batch, int epochs) {
    return lenet(folder, cat("train_size: 64, batch_size: ", batch),
                 {cat("train.epochs=", epochs), "ckpt.every_iters=3", "--resume"});
  };
  train(1, given("one", 16, 4));
  train(2, given("run", 8, 2));
  EXPECT_THAT(train(4, given("run", 4, 3)),
              AllOf(HasSubstr("resume: ranks: 2 -> 4"),
                    HasSubstr("resume: changed data.batch_size: 8 -> 4")));
  train(1, given("run", 16, 4));
  const auto last = [&](const std::string& run) { return rows(run, "test").back(); };
  EXPECT_NEAR(last("run")["loss"].get<double>(), last("one")["loss"].get<double>(), 1e-4);
  EXPECT_THAT(run_ranks(2, given("run", 16, 5)),
              Each(fails(2,
                         "a resumed run cannot change the global batch: 16 = 1 x 16 -> "
                         "32 = 2 x 16")));
}

// A run that began alone could not use the toggles of ranks. Its plan does not keep them off.
TEST_F(RanksTest, HaveTheirTogglesInARunThatBeganAlone) {
  train(1, lenet("run", "train_size: 64, batch_size: 16", {"train.epochs=1"}));
  const std::string on = "bucketed_allreduce";
  EXPECT_THAT(read("run/plan.yaml"), HasSubstr("  # " + on + ": off "));
  const std::string out =
      train(2, {"train", "--resume", "run", "data.batch_size=8", "train.epochs=2"});
  EXPECT_THAT(out, HasSubstr("resume: changed dist.bucketed: false -> true"));
  EXPECT_THAT(read("run/plan.yaml"), HasSubstr("\n  " + on + ": on "));
}

// Each rank finds one of the damaged training images, and both leave out the same.
TEST_F(RanksTest, LeaveOutTheSameDamagedSamples) {
  write_images("set", 4);
  write("set/train/a/1.png", "no image");
  write("set/train/b/2.png", "no image");
  write("set/val/b/2.png", "no image");
  const auto all =
      run_ranks(2, on_images({"data.on_damaged=skip", "train.epochs=4", "--run-dir", "out"}));
  for (const Ended& ended : all) ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(all[0].out, HasSubstr("data: 2 damaged samples left out (a 1, b 1); in the test set, "
                                    "1 damaged sample left out (b 1)"));
  const std::string told = all[0].err + all[1].err;
  for (const char* name : {"train/a/1.png", "train/b/2.png", "val/b/2.png"})
    EXPECT_NE(told.find(name), told.npos) << told;
  EXPECT_EQ(rows("out", "run").back()["damaged_samples"], 3);
  const auto accuracy = rows("out", "test").back()["accuracy"].get<double>();
  EXPECT_NEAR(accuracy * 7, std::round(accuracy * 7), 1e-9);  // 7 of 8 can be read
}

// ---- errors

// The last round has one sample for each rank, which a batch norm over (N, C) refuses.
TEST_F(RanksTest, RefuseALastBatchThatCannotTrainBeforeTheFirstStep) {
  const Args args = tiny(
      {"model={name: layers, layers: [flatten, {name: linear, out: 8}, "
       "batch_norm, relu, {name: linear, out: 10}]}",
       "data={name: digits, train_size: 18, test_size: 20, batch_size: 8}", "--run-dir", "out"});
  // The rank that sees it first tells the other one, which may not have looked yet.
  const std::string why = "the last batch of an epoch has 1 sample on a rank";
  EXPECT_THAT(run_ranks(2, args),
              AllOf(Contains(fails(2, why)), Each(testing::AnyOf(fails(2, why), fails(7, why)))));
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  train(2, with(args, {"model.sync_bn=true"}));  // its statistics are those of both samples
}

TEST_F(RanksTest, EndTogetherWhenTheFirstCannotSave) {
  for (const std::string async : {"off", "on"}) {
    const auto no_room = [](int rank) {
      const rlimit limit{.rlim_cur = 100'000, .rlim_max = 100'000};
      if (rank == 0) setrlimit(RLIMIT_FSIZE, &limit);
    };
    const auto all = run_ranks(2,
                               lenet("out" + async, "train_size: 64, batch_size: 8",
                                     {cat("toggles={async_checkpoint: ", async, "}")}),
                               no_room);
    EXPECT_THAT(all, Each(testing::Field(&Ended::code, 8)));
    EXPECT_THAT(all[0].err, HasSubstr("step_00000004.safetensors"));
    EXPECT_EQ(all[1].err, "trainer: rank 1: ended with rank 0, whose message says why\n");
  }
}

TEST_F(RanksTest, EndTogetherOnANonFiniteLoss) {
  const auto all = run_ranks(2, tiny({"model=lenet", "optimizer={name: sgd, lr: 1e30}"}));
  EXPECT_THAT(all, Each(fails(5, "the loss is ")));
}
