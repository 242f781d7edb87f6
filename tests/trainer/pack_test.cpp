// `trainer pack`: training with its shards, or with those of the toggle, gives the same bits.
#include "data/packed/pack.h"
#include <gmock/gmock.h>
#include <fstream>
#include <memory>
#include "core/base/check.h"
#include "core/tensor/safetensors.h"
#include "tests/data/image_files.h"
#include "tests/data/real.h"
#include "tests/trainer/program.h"

using namespace bellows;
namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class Pack : public Program {
 protected:
  // Runs with the test's own cache.
  Ended run_here(const Args& args) {
    return run(args, [this] { setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1); });
  }
  std::string hash_of(const Args& more) {
    const Ended ended = run_here(tiny(more));
    EXPECT_EQ(ended.code, 0) << ended.err;
    return hash_in(ended.out);
  }
};

TEST_F(Pack, TrainingOnWhatItWroteEndsWithTheSameBits) {
  const Ended packed =
      run({"pack", "data={name: digits, train_size: 64, test_size: 20}", "--out", "p, q"});
  EXPECT_EQ(packed.code, 0) << packed.err;
  EXPECT_THAT(packed.out, AllOf(HasSubstr("train: 64 samples, 1 shard, 0.05 MB, "),
                                HasSubstr("test: 20 samples, 1 shard, 0.02 MB, "),
                                HasSubstr("data={name: packed, folder: \"p, q\"}")));
  EXPECT_EQ(hash_of({"data={name: packed, folder: \"p, q\", batch_size: 16}"}), hash_of({}));
}

TEST_F(Pack, TheToggleTrainsWithTheSameBitsAndSaysWhereItReads) {
  const std::string on = "toggles={packed_dataset: on}";
  const std::string plain = hash_of({});
  const Ended first = run_here(tiny({on})), second = run_here(tiny({on}));
  EXPECT_THAT(first.out, HasSubstr("packed: 64 samples, 1 shard, 0.05 MB, "));
  EXPECT_THAT(second.out, AllOf(HasSubstr("packed: 64 samples, out of "),
                                HasSubstr("cache/bellows/packed/digits-")));
  EXPECT_EQ(hash_in(first.out), plain);
  EXPECT_EQ(hash_in(second.out), plain);
}

TEST_F(Pack, ADryRunReadsACachedCopyAndMakesNone) {
  const Args dry = tiny({"toggles={packed_dataset: on}", "--dry-run"});
  const Ended before = run_here(dry);
  EXPECT_EQ(before.code, 0) << before.err;
  EXPECT_THAT(before.out, HasSubstr("packed: no shards yet; a dry run writes none"));
  EXPECT_FALSE(fs::exists(folder_ / "cache/bellows/packed"));
  run_here(tiny({"toggles={packed_dataset: on}"}));
  EXPECT_THAT(run_here(dry).out, HasSubstr("packed: 64 samples, out of "));
}

// Like ranks on one host.
TEST_F(Pack, ProcessesThatStartTogetherPackOnce) {
  const Args args = tiny({"toggles={packed_dataset: on}"});
  const auto cache = [this] { setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1); };
  std::vector<std::unique_ptr<RunningProgram>> together;
  for (int i = 0; i < 3; ++i) together.push_back(start(args, cache));
  std::set<std::string> hashes;
  int packed = 0;
  for (const auto& program : together) {
    const Ended ended = program->end();
    EXPECT_EQ(ended.code, 0) << ended.err;
    hashes.insert(hash_in(ended.out));
    packed += ended.out.find("packed: 64 samples, 1 shard, ") != std::string::npos;
  }
  EXPECT_EQ(hashes.size(), 1u);
  EXPECT_EQ(packed, 1);
}

// Changes the last byte of the cached shard.
TEST_F(Pack, ADamagedCopyEndsWithTheSameBitsAndIsPackedAgain) {
  const Args args = tiny({"toggles={packed_dataset: on}"});
  const std::string whole = hash_in(run_here(args).out);
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "cache/bellows/packed"))
    if (entry.path().filename() == "train-00000.shard")
      std::fstream(entry.path(), std::ios::in | std::ios::out).seekp(-1, std::ios::end).put('x');
  const Ended spoilt = run_here(args), again = run_here(args);
  EXPECT_EQ(spoilt.code, 0);
  EXPECT_THAT(spoilt.err, AllOf(HasSubstr("record 63: damaged: "), HasSubstr("packs again\n")));
  EXPECT_EQ(std::ranges::count(spoilt.err, '\n'), 1) << spoilt.err;
  EXPECT_EQ(hash_in(spoilt.out), whole);
  EXPECT_THAT(again.out, HasSubstr("packed: 64 samples, 1 shard, "));
  EXPECT_EQ(again.err, "");
  EXPECT_EQ(hash_in(again.out), whole);
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
  static Args photos(const std::string& name, const std::string& data, const Args& more = {},
                     const char* on_damaged = "skip") {
    Args args =
        tiny({"name=" + name, "model={name: layers, layers: [flatten, {name: linear, out: 2}]}",
              cat("data={", data, ", batch_size: 4, on_damaged: ", on_damaged,
                  ", transforms: [{name: center_crop, size: 8}, normalize]}")});
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  static constexpr const char* kFolder = "name: image_folder, root: photos";
};

TEST_F(PackPhotos, HaveTheNamesOfTheirClassesAndSkipTheSame) {
  EXPECT_EQ(run({"pack", "data={name: image_folder, root: photos}", "--out", "p"}).code, 0);
  EXPECT_THAT(
      run({"pack", "data={name: image_folder, root: photos, on_damaged: skip}", "--out", "without"})
          .out,
      HasSubstr("train: 7 samples, "));
  write("picture.ppm", "P6 16 16 255\n" + std::string(768, '\x80'));
  const Ended plain = run_here(photos("plain", kFolder));
  EXPECT_THAT(plain.err, HasSubstr("warning: photos/train/stoat/3.jpg: skipped: JPEG: "));
  const Ended packed = run_here(photos("packed", "name: packed, folder: p"));
  const Ended without = run_here(photos("without", "name: packed, folder: without", {}, "error"));
  EXPECT_EQ(hash_in(without.out), hash_in(plain.out));
  const Ended cached = run_here(photos("cached", kFolder, {"toggles.packed_dataset=on"}));
  EXPECT_THAT(cached.out, HasSubstr("packed: 8 samples, 1 shard, "));
  EXPECT_THAT(cached.err, HasSubstr("warning: photos/train/stoat/3.jpg, packed in "));
  EXPECT_EQ(hash_in(packed.out), hash_in(plain.out));
  EXPECT_EQ(hash_in(cached.out), hash_in(plain.out));
  const std::string predicted = run_here({"predict", "runs/plain", "picture.ppm"}).out;
  EXPECT_THAT(predicted, AllOf(HasSubstr("class 0 stoat: 0."), HasSubstr("class 1 weasel: 0.")));
  for (const std::string run : {"packed", "cached"}) {
    EXPECT_EQ(run_here({"predict", "runs/" + run, "picture.ppm"}).out, predicted);
    EXPECT_EQ(run_here({"export", "runs/" + run, run + ".safetensors"}).code, 0);
    EXPECT_EQ(read_safetensors(folder_ / (run + ".safetensors")).metadata.at("classes"),
              R"(["stoat","weasel"])");
  }
}

TEST_F(PackPhotos, ThatAreDamagedAreCountedAndLeftOutOfAnEvaluation) {
  write("photos/val/weasel/2.jpg", "no picture");
  const Ended ended = run_here(photos("plain", kFolder));
  EXPECT_THAT(ended.out,
              HasSubstr("\ndata: 1 damaged sample left out (stoat 1); in the test set, 1 damaged "
                        "sample left out (weasel 1)\n"));
  const std::string metrics = read("runs/plain/metrics.jsonl");
  EXPECT_THAT(metrics, HasSubstr("\"damaged_samples\":2"));
  EXPECT_THAT(run_here({"eval", "runs/plain"}).out,
              HasSubstr("eval: 7 samples, 1 damaged, accuracy: "));
  for (const char* split : {"train", "val"})
    fs::rename(folder_ / "photos" / split / "stoat", folder_ / "photos" / split / "zebra");
  EXPECT_EQ(
      run({"pack", "data={name: image_folder, root: photos}", "data.on_damaged=skip", "--out", "p"})
          .code,
      0);
  const Ended other = run_here({"eval", "runs/plain", "data={name: packed, folder: p}"});
  EXPECT_EQ(other.code, 3);
  EXPECT_THAT(other.err, HasSubstr("class 0 of 2 is weasel, class 0 of 2 was stoat"));
}

// One photo is too large for packing to read, another one is found to be damaged only by a decoder.
TEST_F(PackPhotos, ThatCannotBeReadFollowThePolicyUnderTheToggle) {
  fs::resize_file(write("photos/train/stoat/5.jpg", ""), uint64_t{5} << 30);
  const Args on = {"toggles.packed_dataset=on"};
  const Ended refused = run_here(photos("error", kFolder, on, "error"));
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("sample 2 (photos/train/stoat/5.jpg): "));
  const Ended plain = run_here(photos("plain", kFolder));
  const Ended cached = run_here(photos("cached", kFolder, on));
  EXPECT_THAT(cached.out, HasSubstr(" s, 1 unreadable, into "));
  EXPECT_EQ(hash_in(cached.out), hash_in(plain.out));
  for (const char* file : {"stoat/3.jpg", "stoat/5.jpg"}) {
    EXPECT_THAT(plain.err, HasSubstr(cat("warning: photos/train/", file, ": skipped: ")));
    EXPECT_THAT(cached.err, HasSubstr(cat("warning: photos/train/", file, ", packed in ")));
  }
  EXPECT_EQ(std::ranges::count(cached.err, '\n'), std::ranges::count(plain.err, '\n'));
}

class PackReal : public Pack {
 protected:
  void expect_same_bits(const std::string& data, int classes) {
    const auto with = [&](const char* value) {
      return Args{
          cat("model={name: layers, layers: [flatten, {name: linear, out: ", classes, "}]}"),
          cat("data={", data, ", batch_size: 32}"), "train.max_iters=6", "eval={every: 0}",
          cat("toggles={packed_dataset: ", value, "}")};
    };
    EXPECT_EQ(hash_of(with("on")), hash_of(with("off")));
  }
};

TEST_F(PackReal, DigitsTrainWithTheSameBits) {
  const std::string root = real_data("mnist");
  if (!fs::exists(root)) GTEST_SKIP() << "no MNIST in " << root;
  expect_same_bits("name: mnist, root: " + root, 10);
}

TEST_F(PackReal, SmallPicturesTrainWithTheSameBits) {
  const std::string root = real_data("cifar10");
  if (!fs::exists(root + "/test_batch.bin")) GTEST_SKIP() << "no unpacked CIFAR-10 in " << root;
  expect_same_bits("name: cifar10, root: " + root, 10);
}

TEST_F(PackReal, PhotosTrainWithTheSameBits) {
  const std::string root = real_data("caltech101-subset");
  if (!fs::exists(root + "/train")) GTEST_SKIP() << "no unpacked photos in " << root;
  expect_same_bits("name: image_folder, root: " + root +
                       ", transforms: [{name: random_resized_crop, size: 48}, normalize]",
                   32);
}

TEST_F(Pack, ResumesWithTheSameBits) {
  run({"pack", "data={name: digits, train_size: 64, test_size: 20}", "--out", "p"});
  const Args args =
      tiny({"data={name: packed, folder: p, batch_size: 16}", "ckpt={every_iters: 1, keep: 20}"});
  const std::string whole = hash_in(run(args).out);
  for (int step = 7; step < 9; ++step)
    fs::remove(folder_ / cat("runs/run/checkpoints/step_0000000", step, ".safetensors"));
  Args resumed = args;
  resumed.push_back("--resume");
  const Ended ended = run(resumed);
  EXPECT_THAT(ended.out, HasSubstr("step_00000006.safetensors"));
  EXPECT_EQ(hash_in(ended.out), whole);
}

// Each shard stays open. The soft limit of most systems is 1024 files, the hard one far larger.
TEST_F(Pack, ReadsMoreShardsThanTheSoftLimitOnOpenFiles) {
  for (const Split split : {Split::train, Split::test})
    pack(*DatasetChoice("digits").make({split}), split, "", folder_ / "p",
         {.shard_bytes = 784 * (split == Split::train ? 50 : 500)});
  const Ended ended = run(tiny({"data={name: packed, folder: p}"}), [] {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 64;
    setrlimit(RLIMIT_NOFILE, &limit);
  });
  EXPECT_EQ(ended.code, 0) << ended.err;
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
  expect_refusal({"pack", data, "--out", "file/below"}, 8, "file/below/train-00000.shard");
  expect_refusal(tiny({"data={name: packed, folder: nowhere}"}), 3,
                 "nowhere/train-00000.shard: no such shard; write  trainer pack --config FILE");
  expect_refusal(tiny({"data.packed=true"}), 2, "write  toggles.packed_dataset=on");
}

// A flipped bit on disk: exit 3 with path and record, or skipped with a warning.
TEST_F(Pack, ADamagedRecordEndsTheRunOrIsSkipped) {
  run({"pack", "data={name: digits, train_size: 64, test_size: 20}", "--out", "p"});
  std::string shard = read("p/train-00000.shard");
  shard[shard.size() - 784 * 3 - 1] ^= 4;
  write("p/train-00000.shard", shard);
  const std::string data = "data={name: packed, folder: p, batch_size: 16";
  expect_refusal(tiny({data + "}"}), 3, "(p/train-00000.shard, record 60): damaged: checksum ");
  const Ended skipping = run(tiny({data + ", on_damaged: skip}"}));
  EXPECT_EQ(skipping.code, 0);
  EXPECT_THAT(skipping.err,
              HasSubstr("warning: p/train-00000.shard, record 60: skipped: damaged: "));
}
