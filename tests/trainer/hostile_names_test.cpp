// Names that would leave their folder, cause an endless loop, or forge output on a terminal.
#include <gmock/gmock.h>
#include <unistd.h>
#include <nlohmann/json.hpp>
#include "core/base/json.h"
#include "core/base/utf8.h"
#include "core/tensor/safetensors.h"
#include "tests/trainer/program.h"

using namespace bellows;
namespace fs = std::filesystem;
using testing::HasSubstr;

// Escape, bell, a C1 control as one byte and as UTF-8, DEL, a change of text direction, a forged
// line. No slash, since it is one component of a path.
static const std::string kHostile = "x\x1b[2J\x07\x9b\x7f\xc2\x9b\xe2\x80\xae\nforged: done\r\tx";
// The same in valid UTF-8, for places that require text.
static const std::string kHostileText = "x\x1b[2J\x07\x7f\xc2\x9b\xe2\x80\xae\nforged: done\rx";

class HostileNames : public Program {
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
  // Gives a class of the images of write_images("set", ...) another name.
  void rename_class(const std::string& name) const {
    for (const char* split : {"set/train", "set/val"})
      fs::rename(folder_ / split / "b", folder_ / split / name);
  }
  const std::string checkpoint_ = "runs/run/checkpoints/step_00000008.safetensors";
};

TEST_F(HostileNames, ARunIsNamedByOneComponentOfAPath) {
  fs::create_directories(folder_ / "runs/a");  // where "a\0b" would look for a free number
  for (const std::string name :
       {R"("../../out")", R"("/tmp/bellows-out")", R"("a\0b")", R"(".")", R"("..")", R"("")",
        R"("a/b")", R"("a\nb")", R"("a\x1bb")", R"("a\x9bb")", R"("a\u202eb")"}) {
    write("name.yaml", cat("seed: 1\nname: ", name, "\n"));
    expect_refusal(tiny({"--config", "name.yaml"}), 2,
                   "name.yaml:2:1: name must be one component of a path", [] { alarm(60); });
  }
  expect_refusal(tiny({"name=" + std::string(201, 'x')}), 2, "1 to 200 bytes");
  expect_refusal(tiny({"name=../x"}), 2, "--run-dir puts a run elsewhere");
  EXPECT_TRUE(fs::is_empty(folder_ / "runs/a"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "runs"), {}), 1);
  for (const std::string& name : {std::string(200, 'x'), std::string("größe 画像")}) {
    EXPECT_EQ(run(tiny({"train.epochs=0", "name=" + name})).code, 0) << name;
    EXPECT_TRUE(fs::exists(folder_ / "runs" / name / "plan.yaml")) << name;
  }
}

TEST_F(HostileNames, OnTheCommandLineAreShownEscaped) {
  const std::string& x = kHostile;
  for (const Args& args : std::vector<Args>{
           {x},
           {x + ".yaml"},
           {"list", x},
           {"explain", x},
           {"explain", "einsum", x},
           {"bench", x},
           {"bench", "op", x},
           {"doctor", "--stress", x},
           {"eval", x},
           {"predict", x, x},
           {"export", x, x},
           {"pack", "--config", x, "--out", x},
           {"pack", "--out", x},
           {"ab", "--config", x, "--toggle", "amp"},
           {"ab", "--config", x, "--toggle", x},
           {"train", "--" + x},
           {"train", "--config", x},
           {"train", "--resume", x},
           {"train", x + "=1"},
           {"train", "name=" + x},
           {"train", "model.name=" + x},
           {"train", "seed=" + x},
           {"train", "toggles={" + x + ": on}"},
           {"train", "toggles={amp: \"" + kHostileText + "\"}"},
           {"train", "data={name: mnist, root: \"" + kHostileText + "\"}"},
           {"train", "data={name: image_folder, root: \"x\\x1b[2J\\nforged\"}"},
           {"train", "train.weights=\"x\\x1b[2J\\nforged: \\u202e\""},
       })
    EXPECT_NE(shown(args), 0) << testing::PrintToString(args);
}

TEST_F(HostileNames, OfFilesThatAreUsedAreShownEscaped) {
  write(kHostile + ".yaml", "seed: 1\ntrain: {epoch: 1}\n");
  EXPECT_EQ(shown({"--config", kHostile + ".yaml"}), 2);
  write(kHostile + ".yaml", "seed: 3\n");
  EXPECT_EQ(shown({"--config", kHostile + ".yaml", "--print-config"}), 0);
  EXPECT_EQ(shown(tiny({"--config", kHostile + ".yaml", "--run-dir", kHostile})), 0);
  EXPECT_EQ(shown({"train", "--resume", kHostile, "train.epochs=3"}), 0);
  EXPECT_EQ(shown({"eval", kHostile}), 0);
  EXPECT_EQ(shown({"eval", kHostile, "--json"}), 0);
  EXPECT_EQ(shown({"export", kHostile, kHostile + ".safetensors"}), 0);
  EXPECT_EQ(shown({"export", kHostile, kHostile + ".safetensors"}), 2);
}

TEST_F(HostileNames, OfClassesAndPicturesAreShownEscaped) {
  write_images("set", 3);
  rename_class(kHostileText);
  write("set/train/a/" + kHostileText + ".png", "not a picture");
  EXPECT_EQ(shown(on_images()), 3);
  EXPECT_EQ(shown(on_images({"data.on_damaged=skip", "--overwrite"})), 0);
  EXPECT_EQ(shown({"predict", "runs/run", "set/val/a/0.png"}), 0);
  EXPECT_EQ(shown({"eval", "runs/run"}), 0);
  EXPECT_EQ(shown({"export", "runs/run", "x.safetensors"}), 0);
}

// Folders of classes may have any name that a file system accepts, such as Latin-1 in an old
// archive. Printed and saved names are UTF-8.
TEST_F(HostileNames, OfClassesThatAreNotUtf8AreTrainedEvaluatedAndPredicted) {
  write_images("set", 2);
  rename_class("caf\xe9");
  succeed(on_images());
  EXPECT_THAT(succeed({"eval", "runs/run"}), HasSubstr("eval: 4 samples, "));
  EXPECT_THAT(succeed({"predict", "runs/run", "set/val/a/0.png"}), HasSubstr("class 1 caf"));
  succeed({"train", "--resume", "runs/run"});
}

TEST_F(HostileNames, InACheckpointAreShownEscaped) {
  succeed(tiny({}));
  const SafeTensors saved = read_safetensors(folder_ / checkpoint_);
  const auto forge = [&](const std::string& key, const std::string& text) {
    Metadata metadata = saved.metadata;
    metadata[key] = text;
    write_safetensors(folder_ / "forged.safetensors", saved.tensors, metadata);
  };
  Json plan = Json::parse(saved.metadata.at("plan"));
  plan["model.name"] = kHostileText;
  for (const auto& [key, text] : std::map<std::string, std::string>{
           {"format", kHostileText},
           {"version", kHostileText},
           {"data", kHostileText},
           {"threads", kHostileText},
           {"plan", to_line(plan)},
           {"plan", kHostileText},
           {"position", kHostileText},
           {"classes", to_line(Json(std::vector<std::string>(10, kHostileText)))},
       }) {
    forge(key, text);
    shown({"eval", "forged.safetensors"});
    shown({"export", "forged.safetensors", "out.safetensors", "--overwrite"});
    shown(tiny({"--resume", "forged.safetensors", "--run-dir", "branch"}));
  }
  NamedTensors named = saved.tensors;
  named[0].name = kHostileText;
  write_safetensors(folder_ / "forged.safetensors", named, saved.metadata);
  EXPECT_EQ(shown({"eval", "forged.safetensors"}), 4);
  EXPECT_EQ(shown(tiny({"train.weights=forged.safetensors"})), 4);
}
