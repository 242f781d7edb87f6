// The real program from a user's view: run folders, what it prints, resume, the other verbs, and
// the batch size that it finds with data.batch_size: auto.
#include "tests/trainer/program.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include "core/base/check.h"
#include "core/tensor/copy.h"
#include "core/tensor/safetensors.h"
#include "tests/place.h"
#include "tests/trainer/terminal.h"
#include "trainer/run/run.h"
#include "trainer/verbs/verbs.h"

using namespace bellows;
namespace fs = std::filesystem;

TEST_F(Program, TrainsAndLeavesARunFolder) {
  const std::string out = succeed(tiny({"log={every: 2}", "toggles={batch_lanes: on}"}));
  EXPECT_THAT(
      out,
      AllOf(HasSubstr("config: none given, so the defaults: model layers, data digits, optimizer "
                      "sgd, 2 epochs; "),
            HasSubstr("epoch: 1, iter: 2/4, loss: "),
            HasSubstr("eval: epoch: 2, step: 8, accuracy: "), HasSubstr("accuracy_top5: "),
            HasSubstr("warning: these toggles were on but never ran: batch_lanes ("),
            Not(HasSubstr("fused_loss (")), Not(HasSubstr("of warm-up")), Not(HasSubstr("amp:")),
            HasSubstr("params hash: ")));
  std::istringstream line(out.substr(out.find("\ntime: ") + 7));
  double sum = 0, share = 0;
  std::string percent, phase;
  while (line >> share >> percent >> phase) sum += share;
  EXPECT_EQ(phase, "other");
  EXPECT_NEAR(sum, 100, 0.3) << out;

  std::map<std::string, fs::file_time_type> times;
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "runs/run"))
    times[entry.path().filename()] = entry.last_write_time();
  for (const char* name : {"plan.yaml", "env.json", "metrics.jsonl", "checkpoints"})
    EXPECT_TRUE(times.contains(name)) << name;
  EXPECT_TRUE(times.lower_bound("events.out.tfevents.")->first.starts_with("events.out.tfevents."));
  EXPECT_THAT(Json::parse(read("runs/run/env.json"))["libraries"].dump(), HasSubstr("libgomp"));
  EXPECT_THAT(succeed({"train", "--resume", "runs/run"}), HasSubstr("nothing to do"));
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "runs/run"))
    EXPECT_EQ(times[entry.path().filename()], entry.last_write_time()) << entry.path();
}

TEST_F(Program, SaysWhatARunReachedAndWhichImplementationsRan) {
  EXPECT_THAT(
      succeed(tiny(
          {"schedule={warmup_epochs: 2}", "train.max_iters=6", "model=lenet", "log.kernels=true"})),
      AllOf(HasSubstr("schedule: the run ends after 6 of 8 updates of warm-up"),
            HasSubstr("eval: epoch: 2, step: 6"), HasSubstr("\nkernel: conv1 conv_act_pool: "),
            HasSubstr("\nkernel: conv2 conv_act_pool_backward: ")));
  EXPECT_THAT(
      succeed(tiny({"target={metric: loss, value: 100}", "log.kernels=true", "toggles=none"})),
      AllOf(HasSubstr("target: loss 100 reached; time-to-target: "),
            HasSubstr("64 samples, 1 epoch\n"), Not(HasSubstr("target.value: no effect")),
            HasSubstr("\nkernels: all are the plain ones")));
}

// Each batch takes 20 ms to read. An evaluation reads 60 of them, and is no part of the gap.
TEST_F(Program, ReportsTheGapBetweenEpochsInTheFirstRowOfAnEpoch) {
  succeed(tiny({"train.epochs=3", "toggles=none", "log={every: 2}",
                "data={name: digits, train_size: 64, test_size: 60, batch_size: "
                "16, sim_latency_us: 20000}",
                "eval.batch_size=1"}));
  std::vector<int64_t> steps;
  for (const Json& row : rows("runs/run")) {
    if (!row.contains("epoch_gap_s")) continue;
    steps.push_back(row["step"]);
    EXPECT_GE(row["epoch_gap_s"].get<double>(), 0.02) << row;
    EXPECT_LT(row["epoch_gap_s"].get<double>(), 60 * 0.02) << row;
  }
  EXPECT_THAT(steps, ElementsAre(6, 10));  // 4 updates per epoch
}

TEST_F(Program, ADryRunKeepsNoKernelsInTheUsersCache) {
  const Args args = tiny({"toggles={preset: none, kernel_autotune: benchmark}", "model=lenet",
                          "train.max_iters=2", "train.tuning_window=[1, 1]"});
  const auto cached = [this] { setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1); };
  succeed(with(args, {"--dry-run"}), cached);
  EXPECT_FALSE(fs::exists(folder_ / "cache"));
  EXPECT_THAT(succeed(args, cached), ContainsRegex("autotune: [1-9][0-9]* searches in [0-9.]+ s, "
                                                   "[0-9]+ repeated problems, 0 found on disk"));
  EXPECT_TRUE(fs::exists(folder_ / "cache")) << "a run keeps what it finds";
}

TEST_F(Program, SaysWhatTheLossScaleCameToAndEndsWhereItCannotFall) {
  const auto scaled = [](const char* scaler) {
    return tiny({"toggles={amp: fp16}", cat("amp={scaler: ", scaler, "}")});
  };
  EXPECT_THAT(succeed(scaled("{init_scale: 1e30}")),
              HasSubstr("\namp: loss scale 3.90625e+27, 8 of 8 updates skipped\n"));
  expect_refusal(scaled("{init_scale: 1e30, min_scale: 1e30}"), 5, "falls no further; lower the");
}

TEST_F(Program, AdvisesToSaveLessOftenOrInTheBackground) {
  const struct {
    const char *ckpt, *async, *advice;
  } cases[] = {{"every_iters: 1", "on", "save less often (ckpt.every_iters)"},
               {"every_iters: 1", "off", "async_checkpoint: on}"},
               {"every: 1", "on", "save less often (ckpt.every)"},
               {"every: 0, best: loss", "on", "save less often (eval.every)"},
               {"every: 0", "on", ""},  // only at the end
               {"every: 2", "on", ""}};
  for (const auto& [ckpt, async, advice] : cases) {
    const std::string out = succeed(tiny({cat("ckpt={", ckpt, ", max_overhead: 0}"),
                                          cat("toggles={async_checkpoint: ", async, "}")}));
    EXPECT_EQ(out.find("warning: saving took ") != out.npos, *advice != '\0') << ckpt;
    EXPECT_THAT(out, HasSubstr(advice));
  }
}

TEST_F(Program, PrintsItsVersionCommitAndLibraries) {
  EXPECT_THAT(succeed({"--version"}),
              AllOf(ContainsRegex("^bellows [0-9.]+, commit ([0-9a-f]{12}|unknown)\n"),
                    HasSubstr("\n  compiler "), HasSubstr("\n  zlib "), HasSubstr("\n  onednn "),
                    HasSubstr("\n  cuda ")));
  EXPECT_THAT(run({"--help"}).out, HasSubstr("trainer --version"));
}

TEST_F(Program, WithJsonLinesEveryLineOnStdoutIsJson) {
  int windows = 0, evaluations = 0, messages = 0;
  bool hash = false;
  for (const Json& row :
       json_lines(succeed(tiny({"log={format: json, every: 2}", "train.patience=9"})))) {
    windows += row.contains("iter");
    evaluations += row.value("split", "") == "test" && row.contains("accuracy");
    messages += row.contains("message");
    hash |= row.value("message", "").starts_with("params hash: ");
  }
  EXPECT_EQ(windows, 4);
  EXPECT_EQ(evaluations, 2);
  EXPECT_GT(messages, 5);
  EXPECT_TRUE(hash);
  for (const char* how : {"--resume", "--dry-run"})
    EXPECT_GT(json_lines(run(tiny({"log={format: json}", how})).out).size(), 3u) << how;
}

// The progress bar is overwritten; the line of each epoch stays.
TEST_F(Program, LeavesTheTrainingLossOfEachEpochOnATerminal) {
  const Terminal terminal;
  const auto running = start(tiny({"log={every: 1, tensorboard: false}"}), terminal.in_child());
  const Ended ended = terminal.end(*running);
  EXPECT_EQ(ended.code, 0) << ended.out;
  std::map<int64_t, double> losses;
  for (const Json& row : rows("runs/run", "train"))
    losses[row["epoch"]] += row["loss"].get<double>() / 4;
  ASSERT_EQ(losses.size(), 2u);
  for (const auto& [epoch, loss] : losses)
    EXPECT_THAT(ended.out, HasSubstr(fmt::format("train: epoch: {}, step: {}, loss: {:.4f}\r\n",
                                                 epoch, 4 * epoch, loss)));
}
// ---- options without effect

TEST_F(Program, NamesAllOptionsThatNeedEvaluationsIfThereAreNone) {
  EXPECT_THAT(succeed(tiny({"eval.every=0", "train.patience=1", "ckpt.best=loss",
                            "schedule.name=plateau", "target={metric: loss, value: 9}"})),
              AllOf(HasSubstr("\ntrain.patience, ckpt.best, target.metric, schedule.plateau: no "
                              "effect without evaluations (eval.every is 0)\n"),
                    HasSubstr("\ntarget: loss 9 not reached, nothing was evaluated\n"),
                    HasSubstr("\nbest: nothing was evaluated\n")));
}

TEST_F(Program, NamesOptionsThatLackTheOneTheyBelongTo) {
  EXPECT_THAT(succeed(tiny({"target.value=0.9", "profile.exit_after=true",
                            "optimizer.ema_decay=0.999", "toggles=none"})),
              AllOf(HasSubstr("\ntarget.value: no effect without target.metric\n"),
                    HasSubstr("\nprofile.exit_after: no effect without profile.window\n"),
                    HasSubstr("warning: optimizer.ema_decay: after 8 updates, 99 % of the average "
                              "are still the first weights; use at most 0.")));
}

namespace {
const char* const kNormOfFeatures =
    "model={name: layers, layers: [flatten, {name: linear, out: 8}, batch_norm, relu, {name: "
    "linear, out: 10}]}";
}  // namespace

// The last batch of 4 is split into 2 micro-batches, because batch_norm refuses single samples.
TEST_F(Program, ASmallLastBatchIsNotSplitIntoSingleSamples) {
  const Args split = {kNormOfFeatures, "toggles.gradient_accumulation=4",
                      "data={name: digits, train_size: 20, test_size: 20, batch_size: 8}"};
  succeed(tiny(split));
  if (!has_labs()) return;
  succeed(with({"diagnose", "--config", source_dir() + "/configs/lenet.yaml", "--seconds", "0.1"},
               split));
}

// One sample has no variance for a batch norm over (N, C).
TEST_F(Program, AnEpochThatEndsWithABatchThatCannotTrainIsRefusedBeforeTheFirstStep) {
  const auto args = [](const Args& more) {
    return tiny(
        with({kNormOfFeatures, "data={name: digits, train_size: 17, test_size: 20, batch_size: 8}"},
             more));
  };
  const std::string text =
      "data.batch_size 8: the last batch of an epoch has 1 sample, and the model cannot train on "
      "one (batch_norm_relu: x [1,8] has one element a channel, which has no variance to train "
      "with); "
      "write  data.drop_last=true  or another data.batch_size";
  expect_refusal(args({"--dry-run"}), 2, text);
  expect_refusal(args({}), 2, text);
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
  expect_refusal(args({"--dry-run", "toggles.gradient_accumulation=8"}), 2,
                 "data.batch_size 8: a micro-batch has 1 sample, and the model cannot train on");
  succeed(args({"data.drop_last=true"}));
  EXPECT_EQ(run(args({"train.max_iters=2", "--overwrite"})).code, 0) << "never meets that batch";
  EXPECT_EQ(run(tiny({"data={name: digits, train_size: 17, test_size: 20, batch_size: 8}",
                      "debug.anomaly=true", "--overwrite"}))
                .code,
            0)
      << "a model that takes one";
}

// ---- resume

TEST_F(Program, ADamagedCheckpointFallsBackAndEndsWithTheSameBits) {
  const Args args = tiny({"ckpt={every_iters: 1}"});
  const std::string whole = hash_in(run(args).out);
  const fs::path last = folder_ / "runs/run/checkpoints/step_00000008.safetensors";
  fs::resize_file(last, fs::file_size(last) / 2);
  const std::string out = succeed(with(args, {"--resume"}));
  EXPECT_THAT(out, AllOf(HasSubstr("step_00000008.safetensors"),
                         HasSubstr("falling back to the one before"),
                         HasSubstr("step_00000007.safetensors, step 7")));
  EXPECT_EQ(hash_in(out), whole);
  for (const std::string& name : checkpoints()) {
    const fs::path file = folder_ / "runs/run/checkpoints" / name;
    fs::resize_file(file, fs::file_size(file) / 2);
  }
  expect_refusal(with(args, {"--resume"}), 4, "no checkpoint is intact, ");
}

TEST_F(Program, ResumeRefusesToBecomeAnotherRun) {
  run(tiny({}));
  expect_refusal(tiny({"--resume", "seed=2"}), 2, "cannot change seed: 1 -> 2");
  expect_refusal(tiny({"--resume", "toggles={gradient_accumulation: 2}"}), 2,
                 "cannot change train.accumulate: 1 -> 2");  // other statistics in batch norm
  expect_refusal(tiny({"--resume", "--overwrite"}), 2, "exclude each other");
  expect_refusal(tiny({"--resume", "nowhere"}), 4, "nowhere: no such checkpoint or run folder");
  expect_refusal(tiny({"--resume", "runs/run", "--run-dir", "runs/b"}), 2, "in its own folder");
  fs::copy(folder_ / "runs/run/checkpoints/step_00000008.safetensors", folder_ / "copy");
  expect_refusal(tiny({"--resume", "copy"}), 2, "copy: no plan.yaml in the folder above its own");
  expect_refusal(tiny({"--resume", "optimizer.name=adam"}), 2,
                 "cannot change optimizer.name: sgd -> adam");
}

// One process per machine, without the variables of a launcher. OMP_NUM_THREADS as torchrun sets
// it.
TEST_F(Program, NamesTheThreadsThatTorchrunSets) {
  for (const bool by_torchrun : {true, false}) {
    const std::string out = succeed(tiny({"--overwrite"}), [&] {
      setenv("OMP_NUM_THREADS", "1", 1);
      if (by_torchrun) setenv("RANK", "0", 1), setenv("WORLD_SIZE", "1", 1);
    });
    const char* const note = "OMP_NUM_THREADS=1: set by torchrun, unless you did; ";
    EXPECT_EQ(out.find(note) != out.npos, by_torchrun) << out;
  }
}

// ---- the other verbs

TEST_F(Program, EvaluatesPredictsAndExportsWhatItTrained) {
  const Ended trained = run(tiny({}));
  const size_t at = trained.out.rfind("test: accuracy");
  const std::string metrics = trained.out.substr(at + 6, trained.out.find('\n', at) - at - 6);
  EXPECT_THAT(run({"eval", "runs/run"}).out, HasSubstr("20 samples, " + metrics));
  expect_refusal({"eval", "runs/run", "toggles.amp=off"}, 2,
                 "toggles.amp: a trained model keeps the toggles of its run");

  write("digit.pgm", "P5 28 28 255\n" + std::string(784, '\x80'));
  const std::string predicted = succeed({"predict", "runs/run", "digit.pgm", "--top", "3"});
  EXPECT_EQ(std::ranges::count(predicted, '\n'), 3);
  EXPECT_THAT(predicted, StartsWith("class "));

  succeed({"export", "runs/run", "model.safetensors"});
  const SafeTensors model = read_safetensors(folder_ / "model.safetensors");
  EXPECT_EQ(model.metadata.at("classes"), R"(["0","1","2","3","4","5","6","7","8","9"])");
  expect_refusal({"export", "runs/run", "model.safetensors"}, 2, "model.safetensors exists");
  succeed({"export", "runs/run", "model.safetensors", "--overwrite"});
  ASSERT_EQ(model.tensors.size(), 2u);
  EXPECT_EQ(model.tensors[0].name, "1.weight");
}

TEST_F(Program, StartsFromExportedWeights) {
  const std::string trained = hash_in(run(tiny({})).out);
  succeed({"export", "runs/run", "model.safetensors"});
  EXPECT_NE(hash_in(run(tiny({"train.epochs=0"})).out), trained);
  EXPECT_EQ(hash_in(run(tiny({"train.epochs=0", "train.weights=model.safetensors"})).out), trained);

  NamedTensors half;  // as others save them; the head for other classes does not fit
  for (const auto& [name, tensor] : read_safetensors(folder_ / "model.safetensors").tensors)
    half.push_back({name, name == "1.bias" ? zeros({7}) : cast(tensor, DType::f16)});
  write_safetensors(folder_ / "half.safetensors", half);
  const std::string use = "train.weights=half.safetensors";
  expect_refusal(tiny({use}), 4, "of another shape or type: 1.bias f32[7], not f32[10]");
  expect_refusal(tiny({use}), 4, "; or write  train.weights_strict=false  to keep");
  EXPECT_THAT(succeed(tiny({use, "train.weights_strict=false", "train.epochs=0"})),
              HasSubstr("weights: half.safetensors; initial values kept: 1.bias\n"));

  write_safetensors(folder_ / "other.safetensors", {{"conv1.weight", zeros({3})}});
  expect_refusal(tiny({"train.weights=other.safetensors", "train.weights_strict=false"}), 4,
                 "no tensor fits the model");
}

namespace {
constexpr int64_t kPlenty = int64_t{1} << 40;

// A device that is full with `full` samples: they take 1 s, fewer take as long. 1 MiB each.
auto device(int64_t full) {
  return [full](int64_t batch) {
    const double s = std::max(1.0, double(batch) / double(full));
    return BatchTrial{.samples_per_s = double(batch) / s, .peak_bytes = batch << 20};
  };
}
}  // namespace

TEST(AutoBatch, StopsWhereALargerBatchIsNotFasterOrTwiceThePeakDoesNotFit) {
  BatchChoice choice = grow_batch(10'000, kPlenty, device(100));
  EXPECT_EQ(choice.batch, 128);
  EXPECT_EQ(choice.reason,
            "samples/s of forward and backward: 16: 16, 32: 32, 64: 64, 128: 100, 256: 100");
  EXPECT_EQ(grow_batch(10'000, kPlenty, device(1)).batch, 16);
  choice = grow_batch(10'000, 130 << 20, device(1000));
  EXPECT_EQ(choice.batch, 128) << "takes 128 of 130 MiB";
  EXPECT_THAT(choice.reason, EndsWith(", 256 may need more than 130 MiB"));
  EXPECT_EQ(grow_batch(100, kPlenty, device(1000)).batch, 64) << "at most the training set";
  EXPECT_EQ(grow_batch(5, kPlenty, device(1000)).batch, 5);
}

TEST(AutoBatch, BacksOffWhereMemoryRunsOut) {
  const auto try_out = [](int64_t batch) {
    if (batch > 32) fail(Exit::memory, "out of memory");
    return BatchTrial{.samples_per_s = double(batch)};
  };
  const BatchChoice choice = grow_batch(10'000, kPlenty, try_out);
  EXPECT_EQ(choice.batch, 32);
  EXPECT_THAT(choice.reason, EndsWith(", 64 does not fit into memory"));
  const auto broken = [](int64_t) -> BatchTrial { fail(Exit::data, "damaged"); };
  EXPECT_THROW(grow_batch(10'000, kPlenty, broken), Error);
}

// The folder of the run says which number was found; the same run goes on with it.
TEST_F(Program, TrainsAndResumesWithTheBatchSizeItFound) {
  const auto automatic = [](const char* epochs) {
    return Args{"train",
                "--run-dir",
                "out",
                "data={name: digits, train_size: 100, test_size: 20}",
                "data.batch_size=auto",
                epochs};
  };
  const std::string first = succeed(automatic("train.epochs=1"));
  EXPECT_THAT(first, HasSubstr("data.batch_size: auto -> "));
  const size_t at = first.find("batch_size: auto -> ") + 20;
  const std::string batch = first.substr(at, first.find(' ', at) - at);
  EXPECT_THAT(batch, testing::AnyOf("16", "32", "64"));
  EXPECT_THAT(read("out/plan.yaml"), HasSubstr("batch_size: " + batch));
  EXPECT_THAT(
      succeed(with(automatic("train.epochs=2"), {"--resume"})),
      AllOf(HasSubstr("resume: changed train.epochs: 1 -> 2"), Not(HasSubstr("data.batch_size"))));
}

TEST_F(Program, RefusesAnAutomaticBatchSizeOfSeveralRanksAndWhereNothingTrains) {
  const Ended ended = run({"launch", "--ranks", "2", "--", "data.batch_size=auto"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("tries sizes in one process; write a number for several ranks"));
  if (!verbs().contains("profile")) return;
  expect_refusal(
      {"profile", "--config", source_dir() + "/configs/lenet.yaml", "data.batch_size=auto"}, 2,
      "data.batch_size: auto is found by training; write a number");
}
