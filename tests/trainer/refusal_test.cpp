// Bad input, full disks and folders in use, through the real program: one clear line, the
// documented exit code, and nothing lost.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <pty.h>
#include <sys/mount.h>
#include <unistd.h>
#include <cmath>
#include <csignal>
#include "core/tensor/safetensors.h"
#include "tests/data/image_files.h"
#include "tests/trainer/program.h"
#include "trainer/verbs/verbs.h"

using namespace bellows;
namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// Big-endian integer, as in IDX files.
static std::string big(uint32_t n) { return {char(n >> 24), char(n >> 16), char(n >> 8), char(n)}; }
static std::string idx(uint32_t magic, const std::vector<uint32_t>& dims, const std::string& data) {
  std::string bytes = big(magic);
  for (const uint32_t dim : dims) bytes += big(dim);
  return bytes + data;
}

class BadInput : public Program {
 protected:
  // Writes good files for both splits, then the bad one over one of them.
  void write_mnist(const std::string& bad_name, const std::string& bad) {
    for (const std::string split : {"train", "t10k"}) {
      write("mnist/" + split + "-images-idx3-ubyte",
            idx(2051, {4, 28, 28}, std::string(3136, 'x')));
      write("mnist/" + split + "-labels-idx1-ubyte", idx(2049, {4}, {0, 1, 2, 3}));
    }
    write("mnist/" + bad_name, bad);
  }
  void expect_bad_data(const std::string& text) {
    expect_refusal(tiny({"data={name: mnist, root: mnist, batch_size: 2}"}), 3, text);
    EXPECT_FALSE(fs::exists(folder_ / "runs"));
  }
};

TEST_F(BadInput, DataFilesAreRefusedBeforeTrainingWithFileAndReason) {
  const std::string images = "train-images-idx3-ubyte";
  write_mnist(images, idx(2051, {4, 28, 28}, std::string(3000, 'x')));  // truncated
  expect_bad_data(images);
  write_mnist(images, idx(2051, {1u << 31, 28, 28}, std::string(3136, 'x')));  // oversized header
  expect_bad_data(images);
  write_mnist(images, idx(1234, {4, 28, 28}, std::string(3136, 'x')));  // wrong magic
  expect_bad_data(images);
  write_mnist(images, std::string("\x1f\x8b\x08") + std::string(100, 'x'));  // corrupt gz
  expect_bad_data(images);
  write_mnist("train-labels-idx1-ubyte", idx(2049, {4}, {0, 1, 2, 77}));  // label out of range
  expect_bad_data("mnist/train-labels-idx1-ubyte: record 3 has label 77");
  write_mnist("train-labels-idx1-ubyte", idx(2049, {3}, {0, 1, 2}));
  expect_bad_data("4 images");
  fs::remove_all(folder_ / "mnist");
  expect_bad_data("tools/fetch_data.sh mnist");
}

TEST_F(BadInput, TestImagesOfAnotherSizeAreRefusedBeforeTraining) {
  write_mnist("t10k-images-idx3-ubyte", idx(2051, {4, 32, 32}, std::string(4096, 'x')));
  const std::string both = "its test images are [1,32,32], its training images [1,28,28]";
  expect_bad_data(both);
  expect_refusal(tiny({"data={name: mnist, root: mnist, batch_size: 2}", "--dry-run"}), 3, both);
  const std::string resized = "transforms: [{name: resize, size: 28}, normalize]";
  const Ended ended =
      run(tiny({"data={name: mnist, root: mnist, batch_size: 2, " + resized + "}"}));
  EXPECT_EQ(ended.code, 0) << ended.err;
}

TEST_F(BadInput, ConfigsAreRefusedWithTheirPlace) {
  const struct {
    const char *text, *complaint;
  } cases[] = {
      {"train: {epoch: 3}\n", "bad.yaml:1:9: "},
      {"train: {epoch: 3}\n", "train.epochs"},
      {"learning_rate: 0.1\n", "optimizer.lr"},
      {"DataLoader: 3\n", "bad.yaml:1:1: "},
      {"seed: 1\nseed: 2\n", "bad.yaml:2:1: "},
      {"train: {epochs: many}\n", "'many' is not a whole number"},
      {"seed: 010\n", "010"},
      {"data: {num_workers: 2}\n", "toggles: {num_workers: 2}"},
      {"toggles: {num_worker: 2}\n", "num_workers"},
      {"a: &a [x, x]\nb: [*a, *a]\n", "anchor"},
      {"seed: 1\n---\nseed: 2\n", "document"},
      {"base: nowhere.yaml\n", "does not exist"},
      {"train: {tuning_window: [4, 3]}\n", "train.tuning_window must be the first and the last"},
      {"optimizer: {ema_decay: 1}\n", "bad.yaml:1:13: optimizer.ema_decay must be less than 1"},
      {"amp: {scaler: {backoff_factor: 0}}\n", "amp.scaler.backoff_factor must be between 0 and 1"},
      {"amp: {scaler: {backoff_factor: 1}}\n", "amp.scaler.backoff_factor must be between 0 and 1"},
      {"amp: {scaler: {growth_factor: 1}}\n", "amp.scaler.growth_factor must be more than 1"},
      {"data: {name: shapes, transforms: [{name: random_crop, size: 99}, normalize]}\n",
       "transform random_crop: a side of 32 with padding of 0 is shorter than the crop of 99"},
      {"amp: {scaler: {init_scale: 1e39}}\n", "amp.scaler.init_scale: '1e39' is not"},
      {"amp: {scaler: {init_scale: 8, min_scale: 9}}\n",
       "amp.scaler.min_scale must be no more than init_scale"},
      {"profile: {window: [3]}\n", "profile.window must be the first update and the one after"},
  };
  for (const auto& [text, complaint] : cases) {
    write("bad.yaml", text);
    expect_refusal({"--config", "bad.yaml"}, 2, complaint);
  }
  expect_refusal({"--config", "missing.yaml"}, 2, "missing.yaml");
  expect_refusal({"seed=1", "seed=2"}, 2, "seed");
  expect_refusal({"train", "--nonsense"}, 2, "--nonsense");
  expect_refusal({"trian"}, 2, "the nearest one is 'train'");
  expect_refusal({"configs/lenet.yaml"}, 2, "trainer --config configs/lenet.yaml");
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
}

TEST_F(BadInput, ALossThatIsNotFiniteNamesItsStep) {
  expect_refusal(tiny({"model={name: mlp, hidden: [8]}", "optimizer={lr: 1e30}"}), 5,
                 "the loss is ");
}

TEST_F(BadInput, ADeviceThatIsNotThere) {
  expect_refusal(tiny({"device=cuda"}), 2, "device: auto");
}

TEST_F(BadInput, PicturesThatAreNone) {
  run(tiny({}));
  write("empty.png", "");
  write("cut.png", "\x89PNG\r\n\x1a\n");
  write("cut.jpg", "\xff\xd8\xff\xe0");
  write("huge.pgm", "P5 1000000 1000000 255\n");
  write("short.pgm", "P5 28 28 255\nxx");
  for (const char* name : {"empty.png", "cut.png", "cut.jpg", "huge.pgm", "short.pgm", "none.png"})
    expect_refusal({"predict", "runs/run", name}, 3, name);
}

// ---- values that a run would start from

TEST_F(BadInput, NumbersThatAreNotFiniteAreNamedWithTheirFile) {
  run(tiny({}));
  run({"export", "runs/run", "model.safetensors"});
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
    Args strict = use;
    strict.push_back("ckpt.require_finite=true");
    expect_refusal(tiny(strict), 5, text + " (ckpt.require_finite is on)");
    EXPECT_FALSE(fs::exists(folder_ / "runs/run-2"));
  }
}

// ---- storage

TEST_F(BadInput, ARunFolderInUseNamesItsOwner) {
  const auto running =
      start(tiny({"train.epochs=100000", "log={every: 1000, tensorboard: false}"}));
  ASSERT_TRUE(running->says("run folder"));
  expect_refusal(tiny({"--overwrite"}), 2, "in use by process ");
  running->send(SIGKILL);
  running->end();
  EXPECT_EQ(run(tiny({"--overwrite"})).code, 0);  // the lock died with its process
}

TEST_F(BadInput, AFileInPlaceOfTheFolder) {
  write("runs", "x");
  expect_refusal(tiny({}), 8, "--run-dir");
}

TEST_F(BadInput, AFileLimitWhileSavingKeepsWhatWasSaved) {
  run(tiny({}));
  const std::string before = read("runs/run/checkpoints/step_00000008.safetensors");
  const auto limit = [] {
    const rlimit bytes = {16384, 16384};
    setrlimit(RLIMIT_FSIZE, &bytes);
  };
  expect_refusal(tiny({"--resume", "train.epochs=3"}), 8, "File too large", limit);
  EXPECT_EQ(checkpoints(),
            (std::vector<std::string>{"step_00000004.safetensors", "step_00000008.safetensors"}));
  EXPECT_EQ(read("runs/run/checkpoints/step_00000008.safetensors"), before);
}

// Mounts in a name space of its own. Needs root; otherwise exits with 77.
static void in_own_mounts(const fs::path& where, const char* type, unsigned long flags,
                          const char* data) {
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount(where.c_str(), where.c_str(), type, flags, data) != 0)
    _exit(77);
}

TEST_F(BadInput, AFullDiskWhileSaving) {
  fs::create_directories(folder_ / "runs");
  const auto small_disk = [this] {
    in_own_mounts(folder_ / "runs", "tmpfs", 0, "size=64k");
    if (chdir(folder_.c_str()) != 0) _exit(99);
  };
  if (run({"list", "verbs"}, small_disk).code == 77) GTEST_SKIP() << "needs the right to mount";
  expect_refusal(tiny({"model={name: mlp, hidden: [64]}"}), 8, "No space left", small_disk);
}

TEST_F(BadInput, AReadOnlyRunFolder) {
  fs::create_directories(folder_ / "runs");
  const auto read_only = [this] {
    in_own_mounts(folder_ / "runs", "tmpfs", MS_RDONLY, nullptr);
    if (chdir(folder_.c_str()) != 0) _exit(99);
  };
  if (run({"list", "verbs"}, read_only).code == 77) GTEST_SKIP() << "needs the right to mount";
  expect_refusal(tiny({}), 8, "Read-only file system", read_only);
}

TEST_F(BadInput, ATestImageThatCannotBeReadCostsNoTraining) {
  for (const char* name : {"train/a/0", "train/a/1", "train/b/0", "val/a/0", "val/a/1", "val/b/0"})
    write(cat("set/", name, ".png"), as_png(slopes(8, 8)));
  write("set/val/a/1.png", "no image");
  Args args = tiny({"model={name: layers, layers: [flatten, {name: linear, out: 2}]}",
                    "data={name: image_folder, root: set, batch_size: 2, transforms: [{name: "
                    "resize, size: 8}, {name: center_crop, size: 8}, normalize]}"});
  const Ended refused = run(args);
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("val/a/1.png): neither JPEG nor PNG, BMP, PNM or WebP; "
                                     "data.on_damaged=skip leaves it out"));
  EXPECT_THAT(refused.out, HasSubstr("saved runs/run/checkpoints/step_00000002.safetensors"));
  args.push_back("--resume");
  args.push_back("data.on_damaged=skip");
  const Ended resumed = run(args);
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, AllOf(HasSubstr(", step 2, epoch 0"), HasSubstr("eval: epoch: 1"),
                                 HasSubstr("accuracy_top5: not evaluated, needs 5 classes")));
  if (!verbs().contains("bench")) return;  // no labs
  EXPECT_EQ(run({"bench", "loader", args[2], args[3], "data.on_damaged=skip"}).code, 0);
}

// The advice of the first run holds for the second: it goes on without the image.
TEST_F(BadInput, ATrainingImageThatCannotBeReadIsLeftOutByAResumedRun) {
  for (int i = 0; i < 6; ++i)
    for (const char* split : {"train", "val"})
      write(cat("set/", split, i % 2 ? "/a/" : "/b/", i, ".png"), as_png(slopes(8, 8)));
  Args args = tiny({"model={name: layers, layers: [flatten, {name: linear, out: 2}]}",
                    "data={name: image_folder, root: set, batch_size: 2, transforms: [{name: "
                    "center_crop, size: 8}, normalize]}",
                    "train.epochs=1"});
  ASSERT_EQ(run(args).code, 0);
  args.back() = "train.epochs=3";
  write("set/train/a/1.png", "no image");
  args.push_back("--resume");
  EXPECT_EQ(run(args).code, 3);
  args.push_back("data.on_damaged=skip");
  const Ended resumed = run(args);
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, AllOf(HasSubstr("data: 1 damaged sample left out (a 1)"),
                                 HasSubstr("resume: changed training set: 6 samples, ")));
}

// A run that stops in the middle of an epoch goes on with the bits of one that does not.
TEST_F(BadInput, ATrainingImageThatIsLeftOutIsFoundAgainByAResumedRun) {
  for (int i = 0; i < 12; ++i)
    for (const char* split : {"train", "val"})
      write(cat("set/", split, i % 2 ? "/a/" : "/b/", i, ".png"), as_png(slopes(8 + i, 8)));
  write("set/train/a/1.png", "no image");
  const Args args = tiny({"model={name: layers, layers: [flatten, {name: linear, out: 2}]}",
                          "data={name: image_folder, root: set, batch_size: 2, on_damaged: skip, "
                          "transforms: [{name: center_crop, size: 8}, normalize]}",
                          "schedule=constant", "train.epochs=3", "--run-dir"});
  const auto in = [&](const char* folder, const Args& more) {
    Args all = args;
    all.push_back(folder);
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  const Ended whole = in("whole", {});
  EXPECT_THAT(whole.out, HasSubstr("done: 18 steps"));  // 11 images in batches of 2
  EXPECT_THAT(in("half", {"train.max_iters=8"}).out, HasSubstr("done: 8 steps"));
  const Ended rest = in("half", {"--resume", "train.max_iters=0"});
  EXPECT_THAT(rest.out, HasSubstr("step 8, epoch 1"));
  EXPECT_EQ(hash_in(rest.out), hash_in(whole.out)) << rest.err;
}

TEST_F(BadInput, OutputThatCannotBeWrittenIsToldAtTheEnd) {
  const auto full = [] { dup2(open("/dev/full", O_WRONLY), 1); };
  expect_refusal(tiny({}), 8, "stdout: No space left", full);
  EXPECT_EQ(checkpoints().size(), 2u);  // training goes on without its log
}

TEST_F(BadInput, AReaderThatHasSeenEnoughIsNoError) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  const Ended ended = run(tiny({}), [&] { dup2(ends[1], 1); });
  close(ends[1]);
  EXPECT_EQ(ended.code, 0) << ended.err;
}

TEST_F(BadInput, AClosedTerminalIsNoError) {
  int screen, terminal;
  ASSERT_EQ(openpty(&screen, &terminal, nullptr, nullptr, nullptr), 0);
  close(screen);
  const Ended ended = run(tiny({}), [=] { dup2(terminal, 1); });
  close(terminal);
  EXPECT_EQ(ended.code, 0) << ended.err;
}
