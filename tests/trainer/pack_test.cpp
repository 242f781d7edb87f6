// `trainer pack`: training with its shards gives the same bits.
#include "core/base/check.h"
#include "core/tensor/safetensors.h"
#include "data/packed/shard.h"
#include "tests/data/image_files.h"
#include "tests/trainer/program.h"

using namespace bellows;
namespace fs = std::filesystem;

class Pack : public Program {};

// A flipped bit on disk then ends the run with path and record, or is skipped with a warning.
TEST_F(Pack, TrainingOnWhatItWroteEndsWithTheSameBits) {
  const Ended packed =
      run({"pack", "data={name: digits, train_size: 64, test_size: 20}", "--out", "p, q"});
  EXPECT_EQ(packed.code, 0) << packed.err;
  EXPECT_THAT(packed.out,
              AllOf(HasSubstr("train: 64 samples, 1 shard, 0.05 MB, "),
                    HasSubstr("test: 20 samples, 1 shard, 0.02 MB, "),
                    HasSubstr("to use it:  'data={name: packed, folder: \"p, q\"}'\n")));
  const std::string data = "data={name: packed, folder: \"p, q\", batch_size: 16";
  EXPECT_EQ(hash_in(succeed(tiny({data + "}"}))), hash_in(succeed(tiny({}))));
  std::string shard = read("p, q/train-00000.shard");
  shard[shard.size() - 784 * 3 - 1] ^= 4;
  write("p, q/train-00000.shard", shard);
  expect_refusal(tiny({data + "}"}), 3, "(p, q/train-00000.shard, record 60): damaged: checksum ");
  EXPECT_THAT(run(tiny({data + ", on_damaged: skip}"})).err,
              HasSubstr("warning: p, q/train-00000.shard, record 60: skipped: damaged: "));
}

// Photos of two classes; one file is cut in half.
class PackPhotos : public Pack {
 protected:
  PackPhotos() {
    for (const char* split : {"train", "val"})
      for (int i = 0; i < 8; ++i) {
        const std::string file = as_jpeg(slopes(12 + i, 16));
        write(cat("photos/", split, i % 2 ? "/stoat/" : "/weasel/", i, ".jpg"), file);
      }
    const std::string file = read("photos/train/stoat/3.jpg");
    write("photos/train/stoat/3.jpg", file.substr(0, file.size() / 2));
  }
  static Args photos(const std::string& name, const std::string& data,
                     const char* on_damaged = "skip") {
    return tiny({"name=" + name, "model={name: layers, layers: [flatten, {name: linear, out: 2}]}",
                 cat("data={", data, ", batch_size: 4, on_damaged: ", on_damaged,
                     ", transforms: [{name: center_crop, size: 8}, normalize]}")});
  }
  static constexpr const char* kFolder = "name: image_folder, root: photos";
};

TEST_F(PackPhotos, HaveTheNamesOfTheirClassesAndSkipTheSame) {
  succeed({"pack", "data={name: image_folder, root: photos}", "--out", "p"});
  EXPECT_THAT(
      run({"pack", "data={name: image_folder, root: photos, on_damaged: skip}", "--out", "without"})
          .out,
      HasSubstr("train: 7 samples, "));
  write("picture.ppm", "P6 16 16 255\n" + std::string(768, '\x80'));
  const Ended plain = run(photos("plain", kFolder));
  EXPECT_THAT(plain.err, HasSubstr("warning: photos/train/stoat/3.jpg: skipped: JPEG: "));
  const Ended packed = run(photos("packed", "name: packed, folder: p"));
  const Ended without = run(photos("without", "name: packed, folder: without", "error"));
  EXPECT_EQ(hash_in(without.out), hash_in(plain.out));
  EXPECT_EQ(hash_in(packed.out), hash_in(plain.out));
  const std::string predicted = run({"predict", "runs/plain", "picture.ppm"}).out;
  EXPECT_THAT(predicted, AllOf(HasSubstr("class 0 stoat: 0."), HasSubstr("class 1 weasel: 0.")));
  EXPECT_EQ(run({"predict", "runs/packed", "picture.ppm"}).out, predicted);
  EXPECT_EQ(run({"export", "runs/packed", "packed.safetensors"}).code, 0);
  EXPECT_EQ(read_safetensors(folder_ / "packed.safetensors").metadata.at("classes"),
            R"(["stoat","weasel"])");
}

TEST_F(PackPhotos, ThatAreDamagedAreCountedAndLeftOutOfAnEvaluation) {
  write("photos/val/weasel/2.jpg", "no picture");
  const Ended ended = run(photos("plain", kFolder));
  EXPECT_THAT(ended.out,
              HasSubstr("\ndata: 1 damaged sample left out (stoat 1); in the test set, 1 damaged "
                        "sample left out (weasel 1)\n"));
  const std::string metrics = read("runs/plain/metrics.jsonl");
  EXPECT_THAT(metrics, HasSubstr("\"damaged_samples\":2"));
  EXPECT_THAT(run({"eval", "runs/plain"}).out, HasSubstr("eval: 7 samples, 1 damaged, accuracy: "));
  for (const char* split : {"train", "val"})
    fs::rename(folder_ / "photos" / split / "stoat", folder_ / "photos" / split / "zebra");
  succeed(
      {"pack", "data={name: image_folder, root: photos}", "data.on_damaged=skip", "--out", "p"});
  const Ended other = run({"eval", "runs/plain", "data={name: packed, folder: p}"});
  EXPECT_EQ(other.code, 3);
  EXPECT_THAT(other.err, HasSubstr("2 classes: weasel, zebra; the model has 2: stoat, weasel"));
}

// Each shard stays open. The soft limit of most systems is 1024 files, the hard one far larger.
TEST_F(Pack, ReadsMoreShardsThanTheSoftLimitOnOpenFiles) {
  for (const Split split : {Split::train, Split::test})
    pack(*DatasetChoice("digits").make({split}), split, "", folder_ / "p",
         {.shard_bytes = 784 * (split == Split::train ? 50 : 500)});
  succeed(tiny({"data={name: packed, folder: p}"}), [] {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 64;
    setrlimit(RLIMIT_NOFILE, &limit);
  });
}

TEST_F(Pack, RefusesWithOneLine) {
  const std::string data = "data={name: digits, train_size: 64, test_size: 20}";
  expect_refusal({"pack", data}, 2, "--out is required");
  expect_refusal({"pack", data, "--out", "p", "--encoding", "zip"}, 2,
                 "--encoding: zip not in {keep,raw,jpeg}; see  trainer pack --help");
  expect_refusal({"pack", "--out", "p"}, 2, "no data set is named; write  trainer pack --config");
  expect_refusal({"pack", data, "--out", "p", "--encoding", "jpeg"}, 2, "write  --encoding raw");
  expect_refusal({"pack", data, "--out", "p", "--side", "10"}, 2, "these are all 28 x 28");
  EXPECT_FALSE(fs::exists(folder_ / "p"));
  write("full/file", "something");
  expect_refusal({"pack", data, "--out", "full"}, 2, "full: exists and is not an empty folder");
  write("file", "something");
  expect_refusal({"pack", data, "--out", "file/below"}, 8, "file/below: mkdir: Not a directory");
  expect_refusal(tiny({"data={name: packed, folder: nowhere}"}), 3,
                 "nowhere/train-00000.shard: no such shard; write  trainer pack --config FILE");
}
