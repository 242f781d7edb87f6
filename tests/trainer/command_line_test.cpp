// Messages about the command line can be followed as they are printed.
#include <algorithm>
#include <cctype>
#include <csignal>
#include "core/base/words.h"
#include "tests/place.h"
#include "tests/trainer/program.h"
#include "trainer/verbs/verbs.h"

using namespace bellows;
namespace fs = std::filesystem;

class CommandLineTest : public Program {
 protected:
  void SetUp() override { write("tiny.yaml", "model: lenet\ndata: {name: digits}\n"); }

  struct Case {
    Args args;
    const char* text;
  };
  void expect_usage_errors(const std::vector<Case>& cases) {
    for (const auto& [args, text] : cases) {
      const std::string& verb = args[0];
      const bool is_verb = std::ranges::all_of(verb, [](char c) { return std::islower(c); });
      if (is_verb && !verbs().contains(verb)) continue;  // one of the labs, which are not here
      expect_refusal(args, 2, text);
    }
  }
  static size_t count(const std::string& text, const std::string& word) {
    size_t found = 0;
    for (size_t at = 0; (at = text.find(word, at)) != text.npos; at += word.size()) ++found;
    return found;
  }
};

TEST_F(CommandLineTest, UnknownEntriesLeadToTheNearestByMeaningOrSpelling) {
  expect_refusal({"train", "data=table"}, 2, " or text; the nearest one is 'csv'");
  expect_refusal({"train", "data={name: numpy}"}, 2, "; the nearest one is 'npy'");
  expect_refusal({"train", "model=resnet19"}, 2, "; the nearest one is 'resnet18'");
  const Ended odd = run({"train", "data=quux"});
  EXPECT_THAT(odd.err, AllOf(HasSubstr("'quux' is not cifar10 or "), EndsWith(" or text\n")));
}

// Each line is completed by bash itself, with its script and its own list of word breaks.
TEST_F(CommandLineTest, BashCompletesVerbsFlagsKeysAndValues) {
  write("complete.sh", R"(
PATH=$1:$PATH
source <(trainer completion bash)
complete -p trainer >/dev/null || exit 1
COMP_LINE=$2 COMP_POINT=${#2} COMP_WORDS=(trainer)
_trainer
printf '%s\n' "${COMPREPLY[@]}"
)");
  const std::pair<const char*, const char*> cases[] = {
      {"trainer exp", "explain\nexport\n"},
      {"trainer help swe", "sweep\n"},
      {"trainer export --exp", ""},
      {"trainer predict --inv", "--invert\n"},
      {"trainer --conf", "--config\n"},
      {"trainer launch --ranks 2 -- --conf", "--config\n"},
      {"trainer train optimizer.l", "optimizer.lr=\n"},
      {"trainer train toggles.am", "toggles.amp=\n"},
      {"trainer train toggles.amp=", "off\nbf16\nfp16\n"},
      {"trainer train toggles.amp=b", "bf16\n"},
      {"trainer train model=len", "lenet\n"},
      {"trainer train train.epochs=", ""},
      {"trainer ab --toggle fused_opt", "fused_optimizer\n"},
      {"trainer ab --toggle amp --value b", "bf16\n"},
      {"trainer explain GradS", "GradScaler\n"},
      {"trainer list togg", "toggles\n"},
      {"trainer --config ", ""},
  };
  for (const auto& [line, expected] : cases) {
    const std::string command =
        cat("bash ", quoted((folder_ / "complete.sh").string()), " ", quoted(program_dir()), " ",
            quoted(line), " > ", quoted((folder_ / "words").string()));
    EXPECT_EQ(std::system(command.c_str()), 0) << line;
    const std::string words = read("words");
    EXPECT_EQ(words == "\n" ? "" : words, expected) << line;
  }
  EXPECT_THAT(succeed({"completion", "zsh"}), HasSubstr("compdef _trainer trainer"));
  expect_refusal({"completion", "fish"}, 2, "fish");
}

TEST_F(CommandLineTest, HelpGroupsTheVerbsAndExplainsEachIn80ColumnsWithAWholeExample) {
  const std::string help = succeed({"--help"});
  EXPECT_EQ(succeed({"help"}), help);
  expect_80_columns(help);
  for (const char* group : {"\ntrain\n", "\nlearn\n", "\nmeasure\n", "\nuse\n"})
    EXPECT_THAT(help, HasSubstr(group));
  std::vector<Args> pages;
  for (const auto& [name, verb] : verbs()) {
    EXPECT_EQ(count(help, "\n  " + name + " "), 1u) << name << " is in no group, or in two";
    pages.push_back({"help", name});
  }
  for (const auto& [name, bench] : benches()) pages.push_back({"bench", name, "--help"});
  for (const Args& page : pages) {
    const std::string out = succeed(page);
    EXPECT_THAT(out, HasSubstr("\nExample:\n  "));
    expect_80_columns(out.substr(0, out.find("\nExample:")));
  }
  expect_refusal({"help", "trian"}, 2, "the nearest one is 'train'");
  EXPECT_EQ(succeed({"help", "ab"}), succeed({"ab", "--help"}));
  EXPECT_THAT(
      run({"ab", "--help"}).out,
      AllOf(HasSubstr("  --budget TEXT Excludes: --processes\n                              "
                      "time for all processes, such as 90s or 2m; ends\n"
                      "                              earlier once the answer is clear\n"),
            HasSubstr("--toggle num_workers --value 2\n")));
}

TEST_F(CommandLineTest, HelpNamesAnArgumentOnceWhoseNameWithDashesWorksToo) {
  for (const auto& [verb, required] :
       std::map<std::string, size_t>{{"eval", 1}, {"predict", 1}, {"export", 2}}) {
    const std::string help = run({verb, "--help"}).out;
    EXPECT_EQ(count(help, "REQUIRED"), required) << help;
    EXPECT_EQ(count(help, "run folder or checkpoint file"), 1) << help;
  }
  expect_refusal({"eval", "--checkpoint", "nowhere"}, 4, "nowhere");
}

// The config does not exist, so the message about the file shows that it came first.
TEST_F(CommandLineTest, NumbersFilesAndUnexpectedWordsAreCheckedBeforeTheWork) {
  write("runs/lenet/log.txt", "");
  expect_usage_errors({
      {{"eval"}, "trainer: missing: RUN; write  trainer eval RUN; see  trainer eval --help"},
      {{"export"}, "missing: RUN FILE; write  trainer export RUN FILE;"},
      {{"export", "run"}, "trainer: missing: FILE; write  trainer export RUN FILE;"},
      {{"report"}, "missing: PATH; write  trainer report PATH;"},
      {{"diagnose", "--config", "tiny.yaml", "--seconds", "nan"}, "--seconds: 'nan' is not a num"},
      {{"plan", "--gbps", "nan", "--ranks", "8"}, "--gbps: 'nan' is not a number"},
      {{"plan", "--step-ms", "inf"}, "--step-ms: 'inf' is not a number"},
      {{"plan", "--gbps", "-1"}, "--gbps: '-1' is not a number above 0"},
      {{"predict", "run", "a.png", "--top", "0"}, "--top: '0' is not a number above 0; see"},
      {{"ab", "--config", "tiny.yaml", "--processes", "0"}, "'0' is not a number above 0; see"},
      {{"ab", "--config", "tiny.yaml", "--steps", "1.5"}, "--steps: '1.5' is not a whole number"},
      {{"ab", "--config", "tiny.yaml", "--steps", "010"}, "--steps: '010' is not a whole number"},
      {{"launch", "--ranks", "two", "--", "check"}, "--ranks: 'two' is not a whole number"},
      {{"predict", "run", "a.png", "--one", "--two"}, "trainer: unexpected: --one --two; see  "},
      {{"compare", "a", "b", "more", "--words"}, "trainer: unexpected: more --words; see  "},
      {{"doctor", "--device", "cuda"}, "doctor: only --stress takes a --device"},
      {{"pack", "-c", "tiny.yaml", "-o", "p", "--quality", "90"},
       "pack: no image is encoded, so --quality has no effect"},
      {{"export", "x.safetensors", "runs/lenet"},
       "runs/lenet is a folder; write  trainer export RUN FILE.safetensors"},
      {{"report", "runs/lenet", "--out", "runs"}, "report: --out: runs is a folder; name a file"},
      {{"profile", "-c", "no.yaml", "--trace", "no/t.json"}, "profile: --trace: no folder no; "},
      {{"profile", "-c", "no.yaml", "--json", "no/t.json"}, "profile: --json: no folder no; "},
      {{"profile", "-c", "no.yaml", "--json", ".run0"}, "profile: --json: .run0 is a folder; "},
      {{"report", "no", "--out", "no/r.html"}, "report: --out: no folder no; "},
      {{"ab", "-c", "tiny.yaml", "--toggle", "fused_optimizer", "--report", "no/r.md"},
       "ab: --report: no folder no; "},
  });
}

// A signal before the work begins ends the program at once, so the wait grows until it does not.
TEST_F(CommandLineTest, AnInterruptedProfileSaysSo) {
  if (!has_labs()) GTEST_SKIP() << "no labs";
  Ended ended;
  for (int wait_ms = 500; wait_ms < 10000 && ended.err.empty(); wait_ms *= 2) {
    const auto running =
        start({"profile", "-c", "tiny.yaml", "--steps", "20:30000", "data.train_size=64",
               "data.batch_size=1", "train.epochs=1000", "optimizer.lr=1e-9"});
    usleep(1000 * wait_ms);
    running->send(SIGINT);
    ended = running->end();
    EXPECT_EQ(ended.code, 130);
  }
  EXPECT_EQ(ended.err, "trainer: profile: interrupted by SIGINT, nothing is printed\n");
}

// ---- words of the command line and of files, in real runs

class CommandLineWords : public Program {
 protected:
  static Args on_images_in(const std::string& root, const Args& more = {}) {
    return on_images(with({"train.epochs=1", "data.root=" + root}, more));
  }
};

TEST_F(CommandLineWords, ThatNameAFolderNameThatFolder) {
  write_images("photos #1", 4);
  for (const std::string other : {"photos", "photos #2", "photos #1 "})
    expect_refusal(on_images_in(other), 3, other + "/train");
  succeed(on_images_in("photos #1"));
  EXPECT_THAT(read("runs/run/plan.yaml"), HasSubstr("root: \"photos #1\""));
  EXPECT_EQ(run({"train", "--resume", "runs/run"}).code, 0) << "plan.yaml is read again";
  succeed({"eval", "runs/run", "data.root=photos #1"});
  succeed({"eval", "runs/run", "--data", "photos #1"});
  succeed(with({"launch", "--ranks", "1", "--"}, on_images_in("photos #1", {"--dry-run"})));
  succeed({"pack", "data={name: image_folder}", "data.root=photos #1", "--out", "packed #1"});
  succeed({"pack", "data={name: packed, folder: \"packed #1\"}", "--out", "again"});
}

TEST_F(CommandLineWords, ThatAreEmptyAreNoPaths) {
  succeed(tiny({}));
  for (const Args& args : std::vector<Args>{tiny({"--config", ""}),
                                            tiny({"--resume="}),
                                            tiny({"--run-dir", ""}),
                                            {"pack", "data={name: digits}", "--out", ""},
                                            {"eval", ""},
                                            {"predict", "runs/run", ""},
                                            {"export", "runs/run", ""}})
    expect_refusal(args, 2, ": the value is empty; write one, or leave the option out");
  succeed(tiny({"--resume"}));  // its value may be left out
}

TEST_F(CommandLineWords, BeginAtHomeWithATilde) {
  write_images("home/photos", 4);
  write("home/base.yaml", "seed: 77\n");
  write("c.yaml", "base: ~/base.yaml\ndata: {name: image_folder, root: ~/photos}\n");
  const auto at_home = [this] { setenv("HOME", (folder_ / "home").c_str(), 1); };
  succeed(on_images_in("~/photos", {"--run-dir=~/runs/a"}), at_home);
  EXPECT_TRUE(fs::exists(folder_ / "home/runs/a/plan.yaml"));
  const std::string printed = run({"train", "--config", "c.yaml", "--print-config"}, at_home).out;
  EXPECT_THAT(printed, HasSubstr("root: " + (folder_ / "home/photos").string()));
  EXPECT_THAT(printed, HasSubstr("seed: 77"));
  EXPECT_THAT(run(tiny({"train.weights=~/none", "--dry-run"}), at_home).err,
              HasSubstr((folder_ / "home/none").string()));
  EXPECT_THAT(run({"train", "--print-config", "data.name=mnist", "data.root=~x/y"}, at_home).out,
              HasSubstr("root: \"~x/y\""));
}

TEST_F(CommandLineWords, NameAConfigThatIsElsewhere) {
  expect_refusal({"--config", "lenet.yaml"}, 2, "lenet.yaml: there is no such config file");
  write("configs/lenet.yaml", "seed: 1\n");
  const std::string advised = run({"--config", "lenet.yaml"}).err;
  EXPECT_THAT(advised, HasSubstr("no such config file; write  --config configs/lenet.yaml"));
  succeed({"--config", "configs/lenet.yaml", "--print-config"});
}
