// Advice of the form key=value: whatever the program says to write, it accepts.
#include <gmock/gmock.h>
#include <regex>
#include "core/config/config.h"
#include "core/config/hint.h"
#include "core/config/yaml.h"
#include "plan/toggle.h"
#include "tests/refusal.h"
#include "tests/trainer/program.h"

using namespace bellows;
namespace fs = std::filesystem;
using testing::HasSubstr;

static Keys owned() {
  Keys keys;
  for (const auto& [key, toggle] : option_owners()) keys.insert(key);
  return keys;
}

static std::vector<Listing::Line> lines_of(Plan plan) {
  Listing listing(true);
  visit(listing, plan);
  return listing.lines;
}

static Names split_at(const std::string& text, const std::string& mark) {
  Names parts = {""};
  for (size_t at = 0; at < text.size();)
    if (text.compare(at, mark.size(), mark) == 0)
      parts.emplace_back(), at += mark.size();
    else
      parts.back() += text[at++];
  return parts;
}

// Every option of every entry: its line, and values with which it exists.
static const std::map<std::string, std::pair<Listing::Line, Values>>& all_options() {
  static const auto all = [] {
    std::map<std::string, std::pair<Listing::Line, Values>> found;
    std::vector<Values> open = {{}, {{"model.name", {"layers"}}}};
    std::set<std::string> seen;
    for (size_t i = 0; i < open.size(); ++i) {
      const Values with = open[i];
      for (const Listing::Line& line : lines_of(load(Plan{}, with))) {
        found.try_emplace(line.key, line, with);
        const bool chosen = line.key.ends_with(".name") &&
                            line.accepts.find(" or ") != line.key.npos &&
                            std::ranges::count(line.key, '.') <= 3;  // not lists of layers in lists
        if (!chosen || !seen.insert(line.key).second) continue;
        for (const std::string& name : split_at(line.accepts, " or ")) {
          open.push_back(with);
          open.back()[line.key] = {name};
        }
      }
    }
    return found;
  }();
  return all;
}

// Returns the word that a shell makes of it.
static std::string unquoted(const std::string& word) {
  if (!word.starts_with("'")) return word;
  EXPECT_TRUE(word.ends_with("'")) << word;
  std::string text;
  for (const std::string& part : split_at(word.substr(1, word.size() - 2), "'\\''"))
    text += (text.empty() ? "" : "'") + part;
  return text;
}

// Checks that the parser takes an advice, and that its key and shape fit the options. A value with
// "..." or " or " is a placeholder.
static void expect_taken(const std::string& advice, const std::string& message, const Values& with,
                         const std::string& key) {
  Values values;
  const std::string place = key.substr(0, key.rfind('.') + 1);
  const bool word = std::regex_search(unquoted(advice), std::regex("^[a-z_0-9.]+="));
  const std::string fault = refusal([&] {
    values = word ? parse_overrides({unquoted(advice)}) : parse_yaml(advice + "\n", "advice");
  });
  ASSERT_EQ(fault, "no error") << advice << "\n" << message;
  const bool of_item = std::regex_search(key, std::regex("\\.[0-9]+\\.")) && !word &&
                       !advice.starts_with(key.substr(0, key.find('.')));
  Values all = with;
  for (const auto& [name, value] : values) {
    const std::string whole = of_item ? place + name : name;
    std::erase_if(all, [&](const auto& known) { return known.first == whole; });
    all[whole] = value;
  }
  const std::string answer = refusal([&] { load(Plan{}, all, owned()); });
  for (const char* wrong : {"unknown key", "is not a list", "is not a map", "one by one"})
    EXPECT_EQ(answer.find(wrong), answer.npos) << advice << "\n" << message << "\n" << answer;
}

static int check_advice(const std::string& message, const Values& with, const std::string& key) {
  const size_t at = message.find("write  ");
  if (at == message.npos) return 0;
  int count = 0;
  for (const std::string& advice : split_at(message.substr(at + 7), "  or  "))
    ++count, expect_taken(advice, message, with, key);
  return count;
}

TEST(Advice, OfEveryOptionIsTakenByTheParser) {
  ASSERT_GT(all_options().size(), 200u);
  int advised = 0, corrected = 0;
  for (const auto& [key, option] : all_options()) {
    const auto& [line, with] = option;
    for (const char* origin : {kCommandLine, "a.yaml:1:1"})
      for (const std::string text : {"0.5", "x, y #z", "yes", "No", "+5", "[]"}) {
        Values source = with;
        source[key] = {text, origin};
        const std::string message = refusal([&] { load(Plan{}, source, owned()); });
        advised += check_advice(message, with, key);
        const size_t at = message.find("; write ");
        if (at == message.npos || message[at + 8] == ' ') continue;
        source[key].text = message.substr(at + 8);
        if (source[key].text.starts_with("it ")) continue;  // "write it in plain decimal digits"
        EXPECT_EQ(refusal([&] { load(Plan{}, source, owned()); }), "no error") << message;
        ++corrected;
      }
    for (size_t dot = key.find('.'); dot != key.npos; dot = key.find('.', dot + 1)) {
      Values source;  // a word where a section belongs
      source[key.substr(0, dot)] = {"x #y", kCommandLine};
      if (is_like(key, "0")) continue;
      check_advice(refusal([&] { load(Plan{}, source, owned()); }), {}, key);
    }
  }
  EXPECT_GT(advised, 20);
  EXPECT_GT(corrected, 20);
}

TEST(Advice, OnATogglesOptionIsTaken) {
  int advised = 0;
  for (const char* origin : {kCommandLine, "a.yaml:1:1"}) {
    std::map<std::string, Value> asked;
    for (const auto& [key, toggle] : option_owners()) asked[key] = {"true", origin};
    for (const Toggle& toggle : toggles()) {
      asked[toggle.name] = {"yes", origin};
      for (const std::string& alias : toggle.aliases) asked[alias] = {"false", origin};
    }
    for (const auto& [key, value] : asked) {
      const std::string message = refusal([&] { make_config({{{key, value}}}); });
      const size_t at = message.find("write  ");
      if (at == message.npos) continue;
      for (std::string advice : split_at(message.substr(at + 7), "  or  ")) {
        advice = advice.substr(0, advice.find(';'));
        ++advised;
        EXPECT_EQ(refusal([&] {
                    Values source = origin == kCommandLine ? parse_overrides({unquoted(advice)})
                                                           : parse_yaml(advice + "\n", "advice");
                    for (auto& [name, given] : source) given.origin = "default";  // not "by name"
                    make_config({source});
                  }),
                  "no error")
            << message;
      }
    }
  }
  EXPECT_GT(advised, 100);
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
