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
#include "tests/data/files.h"
#include "tests/place.h"
#include "tests/trainer/program.h"

using namespace bellows;
namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class BadInput : public Program {
 protected:
  // Expects that good files of MNIST, with that one in place of one of them, cannot be trained on.
  void expect_bad_data(const std::string& name, const std::string& bad, const std::string& text) {
    write_mnist();
    write("mnist/" + name, bad);
    for (const Args& more : {Args{}, {"--dry-run"}})
      expect_refusal(tiny(with({kMnist}, more)), 3, text);
    EXPECT_FALSE(fs::exists(folder_ / "runs"));
  }
  static constexpr const char* kMnist = "data={name: mnist, root: mnist, batch_size: 2}";
};

TEST_F(BadInput, DataFilesAreRefusedBeforeTrainingWithFileAndReason) {
  const std::string images = "train-images-idx3-ubyte", labels = "train-labels-idx1-ubyte",
                    pixels(3136, 'x'), wrong_magic("\0\0\4\3\0\0\0\4\0\0\0\x1c\0\0\0\x1c", 16);
  expect_bad_data(images, idx_header({4, 28, 28}) + pixels.substr(136), images);  // truncated
  expect_bad_data(images, idx_header({1u << 31, 28, 28}) + pixels, images);
  expect_bad_data(images, wrong_magic + pixels, images);
  expect_bad_data(images, "\x1f\x8b\x08" + pixels, images);  // corrupt gz
  expect_bad_data(labels, idx_header({4}) + std::string{0, 1, 2, 77},
                  "mnist/train-labels-idx1-ubyte: record 3 has label 77");
  expect_bad_data(labels, idx({3}), "4 images");
  fs::remove_all(folder_ / "mnist");
  expect_refusal(tiny({kMnist}), 3, "tools/fetch_data.sh mnist");
}

TEST_F(BadInput, TestImagesOfAnotherSizeAreRefusedBeforeTraining) {
  expect_bad_data("t10k-images-idx3-ubyte", idx({4, 32, 32}),
                  "its test images are [1,32,32], its training images [1,28,28]");
  succeed(tiny({kMnist, "data.transforms=[{name: resize, size: 28}, normalize]"}));
}

TEST_F(BadInput, ConfigsAreRefusedWithTheirPlace) {
  const struct {
    const char *text, *complaint;
  } cases[] = {
      {"train: {epoch: 3}\n", "bad.yaml:1:9: "},
      {"train: {epoch: 3}\n", "train.epochs"},
      {"learning_rate: 0.1\n", "optimizer.lr"},
      {"DataLoader: 3\n", "bad.yaml:1:1: "},
      {"train: {epochs: many}\n", "'many' is not a whole number"},
      {"data: {num_workers: 2}\n", "toggles: {num_workers: 2}"},
      {"toggles: {num_worker: 2}\n", "num_workers"},
      {"base: nowhere.yaml\n", "does not exist"},
      {"optimizer: {ema_decay: 1}\n", "bad.yaml:1:13: optimizer.ema_decay must be less than 1"},
      {"amp: {scaler: {backoff_factor: 0}}\n", "amp.scaler.backoff_factor must be between 0 and 1"},
      {"amp: {scaler: {backoff_factor: 1}}\n", "amp.scaler.backoff_factor must be between 0 and 1"},
      {"amp: {scaler: {growth_factor: 1}}\n", "amp.scaler.growth_factor must be more than 1"},
      {"data: {name: shapes, transforms: [{name: random_crop, size: 99}, normalize]}\n",
       "transform random_crop: a side of 32 with padding of 0 is shorter than the crop of 99"},
      {"data: {transforms: [random_flip, {name: resize, size: 20}, normalize]}\n",
       "bad.yaml:1:21: data.transforms has resize after random_flip; the order is: "},
      {"amp: {scaler: {init_scale: 1e39}}\n", "amp.scaler.init_scale: '1e39' is not"},
      {"amp: {scaler: {init_scale: 8, min_scale: 9}}\n",
       "amp.scaler.min_scale must be no more than init_scale"},
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
    expect_refusal(tiny(with(use, {"ckpt.require_finite=true"})), 5,
                   text + " (ckpt.require_finite is on)");
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
  succeed(tiny({"--overwrite"}));  // the lock died with its process
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

TEST_F(BadInput, AFullDiskWhileSavingAndAReadOnlyOne) {
  fs::create_directories(folder_ / "runs");
  const auto on = [this](unsigned long flags, const char* data) {
    return [=, this] {
      in_own_mounts(folder_ / "runs", "tmpfs", flags, data);
      if (chdir(folder_.c_str()) != 0) _exit(99);
    };
  };
  const auto small = on(0, "size=64k"), read_only = on(MS_RDONLY, nullptr);
  if (run({"list", "verbs"}, small).code == 77) GTEST_SKIP() << "needs the right to mount";
  expect_refusal(tiny({"model={name: mlp, hidden: [64]}"}), 8, "No space left", small);
  expect_refusal(tiny({}), 8, "Read-only file system", read_only);
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
