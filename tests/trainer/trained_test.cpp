// A run folder is enough to use its model: in PyTorch, and without the training data.
#include <fcntl.h>
#include <unistd.h>
#include <cmath>
#include <nlohmann/json.hpp>
#include "core/tensor/safetensors.h"
#include "tests/data/image_files.h"
#include "tests/trainer/program.h"

using namespace bellows;
namespace fs = std::filesystem;

namespace {

class Trained : public Program {
 protected:
  static constexpr const char* kNet =
      "model={name: layers, layers: [{name: conv2d, out: 4}, batch_norm, relu, {name: residual, "
      "layers: [{name: conv2d, out: 6, stride: 2, padding: 1}, batch_norm], shortcut: [{name: "
      "conv2d, out: 6, kernel: 1, stride: 2}, batch_norm]}, batch_norm, {name: conv2d, out: 2}, "
      "flatten, {name: linear, out: 10}]}";
  static std::string pgm(char grey) { return "P5 28 28 255\n" + std::string(784, grey); }
  static std::function<void()> from_stdin(const fs::path& file) {
    return [file] { dup2(open(file.c_str(), O_RDONLY), 0); };
  }
  std::map<std::string, Tensor> exported(const std::string& run, const std::string& file,
                                         const Args& more = {}) {
    succeed(with({"export", run, file}, more));
    std::map<std::string, Tensor> tensors;
    for (const auto& [name, tensor] : read_safetensors(folder_ / file).tensors)
      tensors[name] = tensor;
    return tensors;
  }
};

}  // namespace

// ---- export

TEST_F(Trained, ExportHasEveryTensorOfTheModelAsPyTorchWouldBuildIt) {
  for (const char* drop : {"on", "off"})
    succeed(tiny(
        {kNet, cat("toggles={preset: none, drop_conv_bias: ", drop, "}"), cat("name=", drop)}));
  const auto full = exported("runs/off", "full.safetensors");
  const auto without = exported("runs/on", "without.safetensors");
  std::vector<std::string> zero;
  for (const auto& [name, tensor] : full) {
    ASSERT_TRUE(without.contains(name)) << name;
    EXPECT_EQ(without.at(name).shape(), tensor.shape()) << name;
    if (tensor.dtype() != DType::f32) continue;  // num_batches_tracked
    const auto values = without.at(name).data<float>();
    if (std::ranges::all_of(values, [](float x) { return x == 0; })) zero.push_back(name);
  }
  EXPECT_EQ(without.size(), full.size());
  EXPECT_THAT(zero, ElementsAre("0.bias", "3.0.bias", "3.shortcut.0.bias"));
  // The exported file starts a run under the toggle again, whose model has no such biases.
  succeed({"train", "--config", "runs/on/plan.yaml", "train.weights=without.safetensors",
           "train.epochs=0", "name=again"});

  // New batch norms change nothing but by eps, so a run that starts from folded weights evaluates
  // as the model did.
  const auto folded = exported("runs/off", "folded.safetensors", {"--fold-bn"});
  std::vector<std::string> gone;
  for (const auto& [name, tensor] : full)
    if (!folded.contains(name)) gone.push_back(name.substr(0, name.rfind('.')));
  gone.erase(std::unique(gone.begin(), gone.end()), gone.end());
  EXPECT_THAT(gone, ElementsAre("1", "3.1", "3.shortcut.1")) << "that after the block stays";
  succeed({"train", "--config", "runs/off/plan.yaml", "train.weights=folded.safetensors",
           "train.weights_strict=false", "train.epochs=0", "name=refolded"});
  const auto loss = [&](const char* of) -> double {
    return Json::parse(run({"eval", of, "--json"}).out)["loss"];
  };
  EXPECT_NEAR(loss("runs/refolded"), loss("runs/off"), 1e-4);
  run(tiny({"name=plain"}));
  expect_refusal({"export", "runs/plain", "x.safetensors", "--fold-bn"}, 2,
                 "no batch norm follows");
}

TEST_F(Trained, ExportDescribesItsInputAndOutput) {
  run(
      tiny({"data={name: shapes, train_size: 16, test_size: 10, batch_size: 16, transforms: "
            "[random_flip, {name: center_crop, size: 28}, normalize]}"}));
  succeed({"export", "runs/run", "model.safetensors"});
  const Metadata metadata = read_safetensors(folder_ / "model.safetensors").metadata;
  std::vector<std::string> keys;
  for (const auto& [key, value] : metadata) keys.push_back(key);
  EXPECT_THAT(keys, ElementsAre("channels", "classes", "format", "input_size", "mean", "std",
                                "transforms"));
  EXPECT_EQ(metadata.at("input_size"), "[3,28,28]");
  EXPECT_EQ(metadata.at("channels"), "3");
  EXPECT_THAT(metadata.at("classes"), StartsWith(R"(["disc","ring","square",)"));
  const Json list = Json::parse(metadata.at("transforms"));
  EXPECT_EQ(list[0]["name"], "random_flip");
  EXPECT_EQ(list[1]["size"], 28);
  EXPECT_EQ(list[2]["mean"], Json::parse(metadata.at("mean")));
  EXPECT_EQ(Json::parse(metadata.at("std")).size(), 3u);
  // The trainer accepts the list that it exported.
  succeed(tiny({"data={name: shapes, train_size: 16, test_size: 10, batch_size: 16}",
                "data.transforms=" + metadata.at("transforms"), "--dry-run"}));
}

TEST_F(Trained, ExportRefusesToReplaceACheckpointAndTheNamesOfOtherFormats) {
  succeed(tiny({}));
  const std::string file = "runs/run/checkpoints/step_00000008.safetensors";
  for (const std::string from : {"runs/run", file.c_str()})
    expect_refusal({"export", from, cat("./", file), "--overwrite"}, 2, "is the checkpoint itself");
  for (const char* name : {"step_00000009", "./step_00000009", "best"})
    expect_refusal({"export", "runs/run", cat("runs/run/checkpoints/", name, ".safetensors")}, 2,
                   "would be a checkpoint of that run");
  succeed({"export", "runs/run", "runs/run/checkpoints/weights.safetensors"});
  for (const char* suffix : {"pt", "pth", "PT", "bin", "onnx", "ckpt"}) {
    expect_refusal({"export", "runs/run", cat("a.b/x.", suffix)}, 2, "name it  a.b/x.safetensors");
    EXPECT_FALSE(fs::exists(folder_ / cat("a.b/x.", suffix)));
  }
  succeed({"export", "runs/run", "x"});
}

// ---- predict

TEST_F(Trained, PredictTakesManyImagesAndContinuesAfterADamagedOne) {
  run(tiny({}));
  write("in/b.pgm", pgm('\x10'));
  write("in/deep/a.PGM", pgm('\x80'));
  write("in/notes.txt", "no image");
  write("c.pgm", pgm('\xff'));
  const std::string good = succeed({"predict", "runs/run", "in", "c.pgm", "--top", "2"});
  EXPECT_THAT(good, ContainsRegex("^in/b.pgm: class [0-9]: 0.[0-9]+, class [0-9]: "
                                  "0.[0-9]+\nin/deep/a.PGM: class .*\nc.pgm: "));
  write("in/damaged.png", "no image");
  const Ended bad = run({"predict", "runs/run", "in", "c.pgm", "--top", "2"});
  EXPECT_EQ(bad.code, 3);
  EXPECT_EQ(bad.out, good);
  EXPECT_THAT(bad.err,
              AllOf(HasSubstr("warning: in: 1 left out: .txt 1; the first is in/notes.txt"),
                    HasSubstr("\ntrainer: in/damaged.png: "),
                    HasSubstr("\ntrainer: 1 of 4 images could not be used\n")));
  fs::create_directories(folder_ / "empty");
  expect_refusal({"predict", "runs/run", "empty"}, 3, "empty: no image in this folder");
  expect_refusal({"predict", "runs/run"}, 2, "no image is named");
}

TEST_F(Trained, PredictReadsAnImageOrAListFromStdin) {
  run(tiny({}));
  const fs::path image = write("a.pgm", pgm('\x80'));
  const std::string plain = run({"predict", "runs/run", "a.pgm"}).out;
  EXPECT_EQ(run({"predict", "runs/run", "-"}, from_stdin(image)).out, plain);
  const fs::path list = write("list",
                              "\xef\xbb\xbf"
                              "a.pgm\r\n\na.pgm\r\n");
  const std::string from_file = run({"predict", "runs/run", "--list", "list"}).out;
  EXPECT_EQ(std::ranges::count(from_file, '\n'), 2);
  EXPECT_EQ(run({"predict", "runs/run", "--list", "-"}, from_stdin(list)).out, from_file);
  expect_refusal({"predict", "runs/run", "-", "--list", "-"}, 2,
                 "cannot be both an image and the list");
}

// A program that writes one line and waits for its answer must not wait forever.
TEST_F(Trained, PredictAnswersEachLineBeforeTheNextOneIsWritten) {
  run(tiny({}));
  write("a.pgm", pgm('\x80'));
  write("b.pgm", pgm('\x40'));
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const auto program = start({"predict", "runs/run", "--list", "-"}, [&] { dup2(ends[0], 0); });
  close(ends[0]);
  const auto type = [&](const std::string& text) {
    EXPECT_EQ(::write(ends[1], text.data(), text.size()), std::ssize(text));
  };
  type("a.pgm\nb.p");
  ASSERT_TRUE(program->says("a.pgm: class "));
  type("gm\n");
  ASSERT_TRUE(program->says("b.pgm: class "));
  EXPECT_FALSE(program->over());
  close(ends[1]);
  EXPECT_EQ(program->end().code, 0);
}

TEST_F(Trained, PredictWritesJsonWithProbabilitiesOrLogits) {
  run(tiny({"data={name: shapes, train_size: 16, test_size: 10, batch_size: 16}"}));
  write("a.ppm", "P6 32 32 255\n" + std::string(3072, '\x20'));
  write("b.ppm", "P6 32 32 255\n" + std::string(3000, '\x20'));
  const Ended shares = run({"predict", "runs/run", "--json", "a.ppm", "b.ppm"});
  const Ended raw = run({"predict", "runs/run", "--json", "--logits", "a.ppm"});
  EXPECT_EQ(shares.code, 3);
  EXPECT_EQ(raw.code, 0);
  const std::vector<Json> lines = json_lines(shares.out);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1]["image"], "b.ppm");
  EXPECT_THAT(lines[1]["error"].get<std::string>(), HasSubstr("b.ppm: PNM: the file ends"));
  const auto p = lines[0]["probabilities"].get<std::vector<double>>();
  const auto z = json_lines(raw.out).at(0)["logits"].get<std::vector<double>>();
  ASSERT_EQ(p.size(), 10u);
  ASSERT_EQ(z.size(), 10u);
  double sum = 0;
  for (const double logit : z) sum += std::exp(logit);
  for (int i = 0; i < 10; ++i) EXPECT_NEAR(p[i], std::exp(z[i]) / sum, 1e-5);
  const size_t best = std::ranges::max_element(p) - p.begin();
  EXPECT_EQ(lines[0]["class"], best);
  EXPECT_THAT(run({"predict", "runs/run", "a.ppm", "--top", "1"}).out,
              StartsWith(cat("class ", best, " ", lines[0]["name"].get<std::string>(), ": 0.")));
}

// ---- without the training data

TEST_F(Trained, NeedsNoTrainingDataToPredictAndToEvaluate) {
  for (const char* split : {"photos/train/", "photos/val/", "other/val/"})
    for (int i = 0; i < 6; ++i)
      write(cat(split, i % 2 ? "weasel/" : "stoat/", i, ".jpg"), as_jpeg(slopes(12 + i, 16)));
  succeed(tiny({"name=plain", "model={name: layers, layers: [flatten, {name: linear, out: 2}]}",
                "data={name: image_folder, root: photos, batch_size: 4, transforms: [{name:"
                " center_crop, size: 8}, normalize]}"}));
  const std::string image = "other/val/stoat/2.jpg";
  const std::string predicted = run({"predict", "runs/plain", image}).out;
  const std::string metrics = run({"eval", "runs/plain"}).out;
  EXPECT_THAT(predicted, HasSubstr("class 0 stoat: 0."));
  EXPECT_THAT(metrics, StartsWith("eval: 6 samples, "));
  fs::remove_all(folder_ / "photos/train");
  EXPECT_EQ(run({"predict", "runs/plain", image}).out, predicted);
  EXPECT_EQ(run({"eval", "runs/plain"}).out, metrics);
  EXPECT_EQ(run({"eval", "runs/plain", "--data", "other"}).out, metrics);
  EXPECT_EQ(run({"eval", "runs/plain", "data.root=other"}).out, metrics);
  fs::remove_all(folder_ / "photos");
  EXPECT_EQ(run({"predict", "runs/plain", image}).out, predicted);
  succeed({"export", "runs/plain", "model.safetensors"});
  fs::remove_all(folder_ / "other/val/stoat");  // labels stay those of the model
  EXPECT_THAT(run({"eval", "runs/plain", "--data", "other"}).out, StartsWith("eval: 3 samples, "));
  fs::rename(folder_ / "other/val/weasel", folder_ / "other/val/zebra");
  expect_refusal({"eval", "runs/plain", "--data", "other"}, 3,
                 "other/val/zebra: not one of the model");
  expect_refusal({"eval", "runs/plain", "--data", "other", "data.root=x"}, 2, "exclude each other");
  expect_refusal({"eval", "runs/plain", "--data", "./other2"}, 2,
                 "--data ./other2: no such folder");
}

TEST_F(Trained, OtherDataAreNormalizedAsTheTrainingSetWas) {
  run(tiny({}));
  write_mnist();
  const auto loss_with = [&](const Args& more) -> double {
    return Json::parse(succeed(with({"eval", "runs/run", "--json"}, more)))["loss"];
  };
  const std::string other = "{name: mnist, root: mnist}";
  const auto normalized = [&](const char* mean, const char* std) {
    return loss_with({"data=" + other, cat("data.transforms=[{name: normalize, mean: [", mean,
                                           "], std: [", std, "]}]")});
  };
  EXPECT_EQ(loss_with({"--data", other}), normalized("0.1032", "0.2286")) << "those of digits";
  EXPECT_NE(loss_with({"--data", other}), normalized("0.1307", "0.3081"));
}

// ---- evaluation

TEST_F(Trained, RunsTheTransformsThatItPrints) {
  const std::string list = "  transforms:\n    - name: normalize ";
  for (const Args& more : {Args{}, {"data.transforms=[]"}})
    EXPECT_THAT(run(tiny(with({"--print-config"}, more))).out, HasSubstr(list));
  EXPECT_THAT(run({"explain", "data.transforms"}).out,
              HasSubstr("[] is [normalize], with the data set's mean"));
  EXPECT_THAT(run(tiny({"data.transforms=[]"})).out,
              HasSubstr(R"(transforms: [{"name":"normalize","mean":[0.1032],"std":[0.2286]}])"));
  EXPECT_THAT(read("runs/run/plan.yaml"), HasSubstr(list));
}
