// Bad input, unreachable paths, full disks and folders in use, through the real program: one clear
// line, the documented exit code, and nothing lost. Names and checkpoints that would leave their
// folder, cause an endless loop or forge output on a terminal. options_test.cpp has the values of
// options.
#include "tests/refusal.h"
#include <fcntl.h>
#include <pty.h>
#include <unistd.h>
#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>
#include "core/base/utf8.h"
#include "core/config/config.h"
#include "core/tensor/safetensors.h"
#include "ops/matmul/matmul.h"
#include "plan/plan.h"
#include "tests/data/files.h"
#include "tests/data/image_files.h"
#include "tests/place.h"
#include "tests/trainer/program.h"

using namespace bellows;
namespace fs = std::filesystem;

namespace {

constexpr const char* kMnist = "data={name: mnist, root: mnist, batch_size: 2}";

// Becomes nobody if the tests run as root, who can follow every path.
void as_nobody() {
  alarm(60);  // a program that waits for a pipe would wait forever
  if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(77);
}

using BadInput = Program;

}  // namespace

// ---- configs and command lines

TEST_F(BadInput, ConfigsAndCommandLinesAreRefusedInTheseWords) {
  const struct {
    const char *config, *message;
  } configs[] = {
      {"train: {epoch: 3}", "1:9: unknown key 'train.epoch', it is called 'train.epochs' here"},
      {"learning_rate: 0.1", "1:1: unknown key 'learning_rate', it is called 'optimizer.lr' here"},
      {"train: {epochs: many}",
       "1:9: train.epochs: 'many' is not a whole number from 0 to 1000000000"},
      {"data: {num_workers: 2}",
       "1:8: data.num_workers is set by a toggle; write  toggles: {num_workers: 2}"},
      {"toggles: {num_worker: 2}",
       "1:11: unknown toggle 'num_worker', the nearest one is 'num_workers'"},
      {"optimizer: {ema_decay: 1}",
       "1:13: optimizer.ema_decay must be less than 1, or the average would never move"},
      {"amp: {scaler: {backoff_factor: 0}}",
       "1:16: amp.scaler.backoff_factor must be between 0 and 1, or the scale would be lost or "
       "never fall"},
      {"amp: {scaler: {growth_factor: 1}}",
       "1:16: amp.scaler.growth_factor must be more than 1, or the scale would never grow"},
      {"amp: {scaler: {init_scale: 8, min_scale: 9}}",
       "1:31: amp.scaler.min_scale must be no more than init_scale"},
  };
  for (const auto& [config, message] : configs) {
    write("bad.yaml", config);
    expect_refusal({"--config", "bad.yaml"}, 2, cat("trainer: bad.yaml:", message, "\n"));
  }
  const struct {
    Args args;
    const char* message;
  } lines[] = {
      {{"seed=1", "seed=2"}, "command line: 'seed' is given twice"},
      {{"train", "--nonsense"}, "unexpected: --nonsense; see  trainer train --help"},
      {{"trian"},
       "unknown verb 'trian', the nearest one is 'train'; trainer --help  lists all verbs"},
      {{"configs/lenet.yaml"}, "write  trainer --config configs/lenet.yaml"},
      {{"device=cuda"}, "write  device: auto"},
      {{"target.metric=f1"},
       "target.metric: 'f1' is not evaluated; eval.metrics has loss, accuracy, accuracy_top5"},
      {{"schedule={name: plateau, metric: accuracy_top3}"},
       "schedule.metric: 'accuracy_top3' is not evaluated; "},
      {{"eval.metrics=[accuracy, accuracy]"}, "eval.metrics: accuracy is named twice"},
      {{"eval.metrics=[r2]"},
       "eval.metrics: r2 needs targets that are values, and those of digits are classes; use  "
       "eval.metrics: [accuracy]"},
      {{"train.tuning_window=[4, 3]"},
       "train.tuning_window must be the first and the last update, as in [1, 10]"},
      {{"profile.window=[4, 4]"},
       "profile.window must be the first update and the one after the last, as in [20, 30]"},
      {{"data.transforms=[random_flip, {name: resize, size: 20}, normalize]"},
       "data.transforms has resize after random_flip; the order is: "},
      {{"data={name: shapes, transforms: [{name: random_crop, size: 99}, normalize]}"},
       "transform random_crop: a side of 32 with padding of 0 is shorter than the crop of 99"},
  };
  for (const auto& [args, message] : lines) expect_refusal(args, 2, message);
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
}

// ---- paths

// Every option and argument that takes a path, with paths that cannot be followed.
TEST_F(BadInput, PathsEndWithTheirReasonAndTheDocumentedExit) {
  succeed(tiny({}));
  fs::permissions(folder_, fs::perms::all);
  write("file", "x");
  write("based.yaml", "base: locked/x.yaml\n");
  fs::create_symlink("ring", folder_ / "ring");
  fs::create_directory(folder_ / "locked");
  fs::permissions(folder_ / "locked", fs::perms::none);
  const std::string digits = "data={name: digits, train_size: 16}";
  for (const auto& [path, reason] :
       std::map<std::string, const char*>{{"locked/x", "Permission denied"},
                                          {"ring", "Too many levels of symbolic links"},
                                          {std::string(300, 'x'), "File name too long"},
                                          {"file/x", ""}}) {
    const struct {
      Args args;
      int code;
    } uses[] = {
        {{"--config", path}, 2},
        {tiny({"--resume", path}), 4},
        {tiny({"--run-dir", path + "/run"}), 8},
        {tiny({"data={name: mnist, root: " + path + "}"}), 3},
        {tiny({"data={name: cifar10, root: " + path + "}"}), 3},
        {tiny({"data={name: image_folder, root: " + path + "}"}), 3},
        {tiny({"data={name: packed, folder: " + path + "}"}), 3},
        {tiny({"train.weights=" + path}), 4},
        {{"eval", path}, 4},
        {{"predict", "runs/run", path}, 3},
        {{"export", path, "out.safetensors"}, 4},
        {{"export", "runs/run", path}, 8},
        {{"pack", digits, "--out", path}, 8},
    };
    for (const auto& [args, code] : uses) expect_refusal(args, code, reason, as_nobody);
  }
  expect_refusal({"--config", "based.yaml"}, 2, "locked/x.yaml: stat: Permission denied",
                 as_nobody);
  // mkdir fails in a read-only folder. The file in it, which cannot be opened, is not the reason.
  fs::permissions(folder_ / "locked", fs::perms::owner_read | fs::perms::owner_exec |
                                          fs::perms::others_read | fs::perms::others_exec);
  for (const Args& args :
       {Args{"pack", digits, "--out", "locked/p"}, tiny({"--run-dir", "locked/r"})})
    expect_refusal(args, 8, ": mkdir: Permission denied; choose ", as_nobody);
  fs::permissions(folder_ / "locked", fs::perms::owner_all);
}

// ---- data

TEST_F(BadInput, DataFilesAreRefusedBeforeTrainingWithFileAndReason) {
  const std::string labels = "train-labels-idx1-ubyte";
  const std::tuple<std::string, std::string, const char*> cases[] = {
      {labels, idx_header({4}) + std::string{0, 1, 2, 77},
       "mnist/train-labels-idx1-ubyte: record 3 has label 77"},
      {labels, idx({3}), "4 images"},
      {"t10k-images-idx3-ubyte", idx({4, 32, 32}),
       "its test images are [1,32,32], its training images [1,28,28]"}};
  for (const auto& [name, bytes, complaint] : cases) {
    write_mnist();
    write("mnist/" + name, bytes);
    for (const Args& more : {Args{}, {"--dry-run"}})
      expect_refusal(tiny(with({kMnist}, more)), 3, complaint);
    EXPECT_FALSE(fs::exists(folder_ / "runs"));
  }
  succeed(tiny({kMnist, "data.transforms=[{name: resize, size: 28}, normalize]"}));
  fs::remove_all(folder_ / "mnist");
  expect_refusal(tiny({kMnist}), 3, "tools/fetch_data.sh mnist");
  write("short.pgm", "P5 28 28 255\nxx");
  for (const char* name : {"short.pgm", "none.png"})
    expect_refusal({"predict", "runs/run", name}, 3, name);
}

TEST_F(BadInput, ATestSetThatEvaluationWouldRefuseIsRefusedBeforeTraining) {
  const auto training = [](int classes, const char* levels, const char* every = "1") {
    return tiny({cat("model={name: layers, layers: [flatten, {name: linear, out: ", classes, "}]}"),
                 cat("data={name: image_folder, root: set, batch_size: 2, transforms: [{name: "
                     "center_crop, size: 8}, {name: normalize, ",
                     levels, "}]}"),
                 cat("eval.every=", every), "--overwrite"});
  };
  const char* const usual = "mean: [0.5, 0.5, 0.5], std: [0.2, 0.2, 0.2]";
  write_images("set", 2);
  write("set/val/b/small.png", as_png(slopes(5, 8)));
  expect_refusal(training(2, usual), 3, "val/b/small.png): ");
  expect_refusal(training(2, usual), 3, "is smaller than the 8x8 to be cut out of it");
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
  fs::remove(folder_ / "set/val/b/small.png");
  EXPECT_THAT(succeed(training(2, usual)),
              AllOf(Not(HasSubstr("warning: data: ")), Not(HasSubstr("warning: normalize"))));
  fs::remove_all(folder_ / "set/val");
  expect_refusal(training(2, usual), 3, "/val: no such folder");
  EXPECT_THAT(succeed(training(2, usual, "0")),
              AllOf(HasSubstr("data: image_folder, 4 to train on, 0 to test"),
                    HasSubstr("data: no test set, which eval.every=0 does not need: ")));
  write_images("set", 2);
  for (const char* gone : {"train/b", "val/b"}) fs::remove_all(folder_ / "set" / gone);
  const char* const of_bytes = "mean: [123.7, 123.7, 123.7], std: [58, 58, 58]";
  EXPECT_THAT(succeed(with(training(1, of_bytes), {"--dry-run"})),
              AllOf(HasSubstr("warning: data: only one class, a, so "),
                    HasSubstr("warning: normalize: mean [123.7,123.7,123.7], but pixels are scaled "
                              "to 0..1 before")));
}

TEST_F(BadInput, ATestImageThatCannotBeReadCostsNoTraining) {
  write_images("set", 2);
  write("set/val/a/1.png", "no image");
  const Ended refused = run(on_images());
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("val/a/1.png): neither JPEG nor PNG, BMP, PNM or WebP; "
                                     "data.on_damaged=skip leaves it out"));
  EXPECT_THAT(refused.out, HasSubstr("saved runs/run/checkpoints/step_00000002.safetensors"));
  const Args skipping = on_images({"data.on_damaged=skip"});
  EXPECT_THAT(succeed(with(skipping, {"--resume"})),
              AllOf(HasSubstr(", step 2, epoch 0"), HasSubstr("eval: epoch: 1"),
                    HasSubstr("accuracy_top5: not evaluated, needs 5 classes")));
  expect_refusal(on_images({"ckpt.best=accuracy_top5"}), 2,
                 "ckpt.best: accuracy_top5 needs 5 classes or more, and image_folder has 2; use "
                 "accuracy");
  if (!has_labs()) return;
  succeed(with({"bench", "loader"}, {skipping.begin() + 3, skipping.end()}));
}

// The advice of the first run holds for the second: it goes on without the image.
TEST_F(BadInput, ATrainingImageThatCannotBeReadIsLeftOutByAResumedRun) {
  write_images("set", 3);
  succeed(on_images({"train.epochs=1"}));
  write("set/train/a/1.png", "no image");
  const Args longer = on_images({"train.epochs=3", "--resume"});
  EXPECT_EQ(run(longer).code, 3);
  EXPECT_THAT(succeed(with(longer, {"data.on_damaged=skip"})),
              AllOf(HasSubstr("data: 1 damaged sample left out (a 1)"),
                    HasSubstr("resume: changed training set: 6 samples, ")));
}

// A run that stops in the middle of an epoch goes on with the bits of one that does not.
TEST_F(BadInput, ATrainingImageThatIsLeftOutIsFoundAgainByAResumedRun) {
  write_images("set", 6);
  write("set/train/a/1.png", "no image");
  const auto in = [&](const char* folder, const Args& more) {
    return succeed(on_images(
        with({"data.on_damaged=skip", "schedule=constant", "train.epochs=3", "--run-dir", folder},
             more)));
  };
  const std::string whole = in("whole", {});
  EXPECT_THAT(whole, HasSubstr("done: 18 steps"));  // 11 images in batches of 2
  EXPECT_THAT(in("half", {"train.max_iters=8"}), HasSubstr("done: 8 steps"));
  const std::string rest = in("half", {"--resume", "train.max_iters=0"});
  EXPECT_THAT(rest, HasSubstr("step 8, epoch 1"));
  EXPECT_EQ(hash_in(rest), hash_in(whole));
}

// ---- values that a run would start from

TEST_F(BadInput, NumbersThatAreNotFiniteAreNamedWithTheirFileByEveryVerb) {
  succeed(tiny({}));
  succeed({"export", "runs/run", "model.safetensors"});
  write("digit.pgm", "P5 28 28 255\n" + std::string(784, '\x80'));
  const std::string checkpoint = "runs/run/checkpoints/step_00000008.safetensors";
  const std::vector<std::pair<std::string, Args>> uses = {
      {checkpoint, {"--resume", checkpoint, "train.epochs=3"}},
      {"model.safetensors", {"train.weights=model.safetensors"}}};
  for (const auto& [file, use] : uses) {
    const SafeTensors saved = read_safetensors(folder_ / file);
    for (const auto& [name, tensor] : saved.tensors)
      if (name == "1.bias") tensor.data<float>()[3] = NAN;
    write_safetensors(folder_ / file, saved.tensors, saved.metadata);
    const std::string text = file + ": 1.bias holds values that are not finite";
    EXPECT_THAT(run(tiny(use)).out, HasSubstr("warning: " + text + "\n"));
    fs::remove_all(folder_ / "runs/run-2");
    expect_refusal(tiny(with(use, {"ckpt.require_finite=true"})), 5,
                   text + " (ckpt.require_finite is on)");
    EXPECT_FALSE(fs::exists(folder_ / "runs/run-2"));
  }
  for (const Args& args : std::vector<Args>{{"eval", "runs/run", "--json"},
                                            {"predict", "runs/run", "digit.pgm"},
                                            {"export", "runs/run", "x.safetensors"}}) {
    const Ended ended = run(args);
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(ended.err, "warning: " + checkpoint + ": 1.bias holds values that are not finite\n");
  }
}

// ---- storage and output

TEST_F(BadInput, ARunFolderInUseNamesItsOwner) {
  const auto running =
      start(tiny({"train.epochs=100000", "log={every: 1000, tensorboard: false}"}));
  ASSERT_TRUE(running->says("run folder"));
  expect_refusal(tiny({"--overwrite"}), 2, "in use by process ");
  running->send(SIGKILL);
  running->end();
  succeed(tiny({"--overwrite"}));  // the lock died with its process
  fs::remove_all(folder_ / "runs");
  write("runs", "x");
  expect_refusal(tiny({}), 8, "--run-dir");
}

TEST_F(BadInput, OutputThatCannotBeWrittenIsToldAtTheEnd) {
  const auto full = [] { dup2(open("/dev/full", O_WRONLY), 1); };
  expect_refusal(tiny({}), 8, "stdout: No space left", full);
  EXPECT_EQ(checkpoints().size(), 2u);  // training goes on without its log
}

TEST_F(BadInput, AReaderThatHasSeenEnoughOrAClosedTerminalIsNoError) {
  int pipe_ends[2], screen, terminal;
  ASSERT_EQ(pipe(pipe_ends), 0);
  ASSERT_EQ(openpty(&screen, &terminal, nullptr, nullptr, nullptr), 0);
  close(pipe_ends[0]);
  close(screen);
  for (const int output : {pipe_ends[1], terminal}) {
    succeed(tiny({"--overwrite"}), [=] { dup2(output, 1); });
    close(output);
  }
}

// Otherwise the first files that a program opens would get these descriptors and receive its
// output.
TEST_F(BadInput, ClosedStandardDescriptorsWriteIntoNoFile) {
  for (const std::vector<int>& closed : {std::vector{0}, {1, 2}, {0, 1, 2}}) {
    fs::remove_all(folder_ / "runs");
    const Ended ended = run(tiny({}), [&] {
      for (const int descriptor : closed) close(descriptor);
    });
    SCOPED_TRACE(testing::PrintToString(closed));
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_THAT(read("runs/run/.lock"), testing::MatchesRegex("process [0-9]+ on [^ \n]+"));
    EXPECT_EQ(rows("runs/run").size(), 7u);  // 4 of training, 2 of evaluation, the totals
    EXPECT_EQ(read("runs/run/plan.yaml").find("epoch: "), std::string::npos);
  }
}

TEST_F(BadInput, AMissingLibraryOfProductsIsNamedWithItsPackage) {
  const Args args = tiny({"cpu.blas=openblas"});
  if (openblas::core().empty()) {
    expect_refusal(args, 2, "apt-get install libopenblas0-pthread");
    EXPECT_FALSE(fs::exists(folder_ / "runs")) << "a run began";
  } else {
    EXPECT_THAT(succeed(args), HasSubstr("params hash"));
  }
}

// Escape, bell, a C1 control as one byte and as UTF-8, DEL, a change of text direction, a forged
// line. No slash, since it is one component of a path.
static const std::string kHostile = "x\x1b[2J\x07\x9b\x7f\xc2\x9b\xe2\x80\xae\nforged: done\r\tx";
// The same in valid UTF-8, for places that require text.
static const std::string kHostileText = "x\x1b[2J\x07\x7f\xc2\x9b\xe2\x80\xae\nforged: done\rx";

class Hostile : public Program {
 protected:
  // Returns the exit code, after checks that the output is safe to print and has no forged line.
  int shown(const Args& args) {
    const Ended ended = run(args, [] { alarm(120); });
    const std::string printed = ended.out + ended.err;
    EXPECT_EQ(printable(printed, Newlines::keep), printed) << testing::PrintToString(args);
    for (const std::string& line : lines_of(printed))
      EXPECT_FALSE(line.starts_with("forged")) << printed;
    EXPECT_NE(ended.code, 9) << ended.err;
    EXPECT_LT(ended.code, 100) << ended.err;
    return ended.code;
  }
  // Writes the checkpoint of a finished run with another text for that entry of its metadata.
  void forge(const std::string& key, const std::string& text, const fs::path& file) const {
    SafeTensors saved = read_safetensors(folder_ / kSaved);
    saved.metadata[key] = text;
    write_safetensors(folder_ / file, saved.tensors, saved.metadata);
  }
  // Returns that entry with another value for one of its keys.
  std::string forged(const std::string& entry, const std::string& key, const Json& value) const {
    Json json = Json::parse(read_safetensors(folder_ / kSaved).metadata.at(entry));
    json[key] = value;
    return to_line(json);
  }

  static constexpr const char* kSaved = "saved";  // copy of a checkpoint
};

// ---- names

TEST_F(Hostile, ARunIsNamedByOneComponentOfAPath) {
  for (const std::string& name :
       {std::string("../../out"), std::string("/tmp/out"), std::string("a\0b", 3), std::string("."),
        std::string(".."), std::string(), std::string("a/b"), std::string("a\nb"),
        std::string("a\x1b") + "b", std::string("a\xc2\x9b") + "b",
        std::string("a\xe2\x80\xae") + "b", std::string(201, 'x')})
    EXPECT_THAT(refusal([&] {
                  load(Plan{}, {{"name", {name, "c.yaml:2:1"}}});
                }),
                StartsWith("c.yaml:2:1: name must be one component of a path"));
  expect_refusal(tiny({"name=../x"}), 2, "--run-dir puts a run elsewhere");
  for (const std::string& name : {std::string(200, 'x'), std::string("größe 画像")}) {
    EXPECT_EQ(run(tiny({"train.epochs=0", "name=" + name})).code, 0) << name;
    EXPECT_TRUE(fs::exists(folder_ / "runs" / name / "plan.yaml")) << name;
  }
}

TEST_F(Hostile, NamesOnTheCommandLineAreShownEscaped) {
  const std::string& x = kHostile;
  for (const Args& args : std::vector<Args>{
           {x},
           {"explain", x},
           {"eval", x},
           {"pack", "--config", x, "--out", x},
           {"ab", "--toggle", x},
           {"train", "--" + x},
           {"train", x + "=1"},
           {"train", "toggles={" + x + ": on}"},
           {"train", "data={name: mnist, root: \"" + kHostileText + "\"}"},
       })
    EXPECT_NE(shown(args), 0) << testing::PrintToString(args);
}

// Folders of classes may have any name that a file system accepts, such as Latin-1 in an old
// archive. Printed and saved names are UTF-8.
TEST_F(Hostile, NamesOfClassesAndImagesAreTrainedAndShownEscaped) {
  write_images("set", 3);
  for (const char* split : {"set/train", "set/val"})
    fs::rename(folder_ / split / "b", folder_ / split / ("caf\xe9" + kHostile));
  write("set/train/a/" + kHostileText + ".png", "not a picture");
  EXPECT_EQ(shown(on_images()), 3);
  EXPECT_EQ(shown(on_images({"data.on_damaged=skip", "--overwrite"})), 0);
  EXPECT_EQ(shown({"predict", "runs/run", "set/val/a/0.png"}), 0);
  EXPECT_THAT(succeed({"predict", "runs/run", "set/val/a/0.png"}), HasSubstr("class 1 caf"));
  EXPECT_EQ(shown({"eval", "runs/run"}), 0);
  EXPECT_THAT(succeed({"eval", "runs/run"}), HasSubstr("eval: 6 samples, "));
  EXPECT_EQ(shown({"export", "runs/run", "x.safetensors"}), 0);
  EXPECT_EQ(shown({"train", "--resume", "runs/run"}), 0);
}

// ---- checkpoints

// Each position would train forever, read beyond the table of learning rates, or skip the remaining
// samples. A branch may start in the middle of an epoch whose length has changed. A plan that
// cannot be loaded is the checkpoint's fault, not the user's.
TEST_F(Hostile, APositionOrPlanThatCannotBeIsTheCheckpointsFault) {
  succeed(tiny({"train.max_iters=6"}));
  const std::string file = "runs/run/checkpoints/step_00000006.safetensors";
  fs::copy(folder_ / file, folder_ / kSaved);
  const struct {
    const char *entry, *key;
    Json value;
    const char* complaint;
  } cases[] = {
      {"position", "step", -1, "'step' is -1, not a count"},
      {"position", "step", "6", "not a count"},
      {"position", "step", 5,
       "the checkpoint's position does not fit this run: epoch 1, batch 2, "
       "step 5, update 6 of the schedule, where an epoch has 4"},
      {"position", "batch", 5, "epoch 1, batch 5"},
      {"position", "batch", INT64_MAX, "'batch' is 9223372036854775807"},
      {"position", "epoch", 1'000'000'000'000, "epoch 1000000000000"},
      {"step_state", "applied", -1, "'applied' is -1"},
      {"step_state", "schedule_index", 7, "update 7 of the schedule"},
      {"plan", "model.name", "none", "the checkpoint's plan: "},
      {"plan", "seed", "-1", "the checkpoint's plan: "},
      {"plan", "name", "../out", "the checkpoint's plan: "},
  };
  for (const auto& [entry, key, value, complaint] : cases) {
    forge(entry, forged(entry, key, value), file);
    const bool is_branch = value == 5, is_plan = entry == std::string("plan");
    if (!is_plan) expect_refusal(tiny({"--resume"}), 4, complaint, [] { alarm(60); });
    if (!is_branch) expect_refusal(tiny({"--resume", file}), 4, complaint, [] { alarm(60); });
    if (is_plan) expect_refusal({"eval", file}, 4, complaint);
  }
}
