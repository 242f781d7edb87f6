// Names and checkpoints that would leave their folder, cause an endless loop or forge output on a
// terminal. options_test.cpp has hostile values of options.
#include <gmock/gmock.h>
#include <unistd.h>
#include <nlohmann/json.hpp>
#include "core/base/json.h"
#include "core/base/utf8.h"
#include "core/config/config.h"
#include "core/tensor/safetensors.h"
#include "plan/plan.h"
#include "tests/refusal.h"
#include "tests/trainer/program.h"

using namespace bellows;
namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

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
