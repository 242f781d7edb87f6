// Rules that decide how a printed command is tested. No list names individual commands.
#include <filesystem>
#include "core/base/check.h"
#include "core/config/config.h"
#include "core/device/device.h"
#include "labs/bench/bench.h"
#include "labs/lesson/lesson.h"
#include "plan/toggle.h"
#include "tests/commands/printed.h"
#include "tests/place.h"
#include "trainer/ab/arm_report.h"

namespace bellows {

namespace fs = std::filesystem;
using Strings = std::vector<std::string>;

// ---- placeholders

// Values that replace placeholders. data.root=FOLDER is dropped, since its default is the data
// set's own folder.
static constexpr std::pair<const char*, const char*> kPlaceholders[] = {
    {"bench NAME", "bench op"},     {"bench x", "bench op"},   {"trainer x", "trainer list"},
    {"lesson NAME", "lesson vram"}, {" data.root=FOLDER", ""}, {"seed=S", "seed=1"},
    {"NAME", "fused_optimizer"},    {"VERB", "list"},          {"FILE", "configs/lenet.yaml"}};

// Removes optional parts such as "[key=value ...]". Stops at a quote: lists in YAML have brackets
// too.
static std::string without_brackets(std::string text) {
  for (size_t begin; (begin = text.find(" [")) < text.find('\'');)
    text.erase(begin, text.find(']', begin) + 1 - begin);
  return text;
}

static std::string filled_in(std::string text) {
  for (const auto& [name, value] : kPlaceholders)
    for (size_t at; (at = text.find(name)) != text.npos;)
      text.replace(at, std::string(name).size(), value);
  return text;
}

static bool is_number(const std::string& word) {
  return !word.empty() && std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
}

static bool is_placeholder(const std::string& word) {
  return word.size() > 1 && std::ranges::all_of(word, [](char c) { return c >= 'A' && c <= 'Z'; });
}

// ---- sizes

// Returns the word after `option`, "" if the option is not given.
static std::string value_of(const Strings& words, const std::string& option) {
  const auto at = std::ranges::find(words, option);
  return at == words.end() || at + 1 == words.end() ? "" : at[1];
}

static Strings overrides_in(const Strings& words) {
  Strings overrides;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool of_option = i > 0 && (words[i - 1] == "--key" || words[i - 1] == "--toggles");
    if (words[i].find('=') != words[i].npos && !words[i].starts_with("-") && !of_option)
      overrides.push_back(words[i]);
  }
  return overrides;
}

// Overrides for smaller data and a smaller model: those options that the configuration has and the
// command does not set.
static std::string smaller(const Strings& words, const std::string& verb) {
  const Strings given = overrides_in(words);
  std::string config = value_of(words, "--config");
  if (!config.empty()) config = source_dir() + "/" + config;
  const Config read = make_config(read_sources(config, given));
  const Values options = dump(read.options);
  const Values set = parse_overrides(given);
  std::string more;
  const auto add = [&](const std::string& key, const std::string& value) {
    const bool known = options.contains(key) || options.contains(key + ".0");
    if (known && !set.contains(key)) more += cat(" ", key, "=", value);
  };
  // One update per epoch. Under ab it is two epochs of two updates, so that workers can prefetch,
  // and a profile has four on two ranks.
  const auto given_batch = set.find("data.batch_size");
  const bool number = given_batch != set.end() && given_batch->second.text != "auto";
  const int64_t batch = number ? std::stoll(given_batch->second.text) : 16;
  const int64_t updates = verb == "ab" ? 2 : verb == "profile" ? 8 : 1;
  add("data.train_size", std::to_string(updates * batch));
  add("data.test_size", "16");
  if (verb == "pack") return more;
  add("data.batch_size", "16");
  add("model.width", "8");
  add("model.widths", "[8,8,8]");
  add("train.epochs", "1");
  add("train.tuning_window", "[1,1]");
  if (verb == "train") add("train.max_iters", "2");
  return more;
}

// Replaces the value of an option, or adds it.
static void set_option(Strings& words, std::string& command, const std::string& option,
                       const std::string& value) {
  const std::string old = value_of(words, option);
  if (old.empty()) {
    command += cat(" ", option, " ", value);
  } else {
    const std::string given = cat(option, " ", old);
    command.replace(command.find(given), given.size(), cat(option, " ", value));
  }
}

// ---- rules

// A comparison of arms: ab, ladder or sweep.
static Planned planned_arms(std::string command, Strings words) {
  // A budget may be too short for one process of each arm on a slow machine.
  if (const std::string budget = value_of(words, "--budget"); !budget.empty())
    command.erase(command.find(" --budget "), std::string(" --budget ").size() + budget.size());
  for (const char* option : {"--processes", "--blocks"}) set_option(words, command, option, "1");
  if (value_of(words, "--measure") != "epoch")
    for (const char* option : {"--steps", "--warmup"}) set_option(words, command, option, "2");
  // Two of the toggles, so that it does not take minutes.
  if (words[0] == "ladder" && value_of(words, "--toggles").empty())
    set_option(words, command, "--toggles", "fused_optimizer,num_workers");
  for (const std::string& word : words)  // a size that the command gives becomes small too
    if (word.starts_with("data.train_size="))
      command.erase(command.find(" " + word), word.size() + 1);
  std::erase_if(words, [](const auto& word) { return word.starts_with("data.train_size="); });
  Planned plan = {Treatment::run, command + smaller(words, "ab")};
  const Toggle* const toggle = find_toggle(value_of(words, "--toggle"));
  if (!toggle) return plan;
  std::string values = value_of(words, "--value");
  if (values.empty()) values = suggested(*toggle);
  for (const std::string& value : split(values))
    if (plan.says.empty()) plan.says = no_effect(*toggle, DeviceChoice::automatic, value);
  if (!plan.says.empty()) plan.code = 2;  // as `explain` reports on such a machine
  return plan;
}

static Planned planned_bench(std::string command, Strings words) {
  const auto has = [](const std::string& text, const char* word) {
    return text.find(word) != text.npos;
  };
  if (has(benches().at(words[1]).help, "GPU") && device_count(Device::cuda) == 0)
    return {Treatment::run, command, 2, "GPU"};
  if (has(output_of({"bench", words[1], "--help"}), "--rounds"))
    set_option(words, command, "--rounds", "1");
  return {Treatment::run, command};
}

static Planned planned_run(std::string command) {
  Strings words = split_command(command);
  words.erase(words.begin(), std::ranges::find(words, "trainer") + 1);
  const bool verb_first = !words.empty() && verbs().contains(words[0]);
  const std::string verb = verb_first ? words[0] : "train";
  // Without arguments it is a verb named in a sentence; its help is run instead.
  if (verb_first && words.size() <= (verb == "bench" ? 2u : 1u))
    return {Treatment::run, command + " --help"};
  if (std::ranges::count(words, "--help")) return {Treatment::run, command};
  if (verb == "ab" || verb == "ladder" || verb == "sweep") return planned_arms(command, words);
  // tests/lessons runs each lesson; here it has to exist.
  if (verb == "lesson") return {Treatment::run, "trainer explain " + words[1]};
  if (verb == "tune") {
    set_option(words, command, "--budget", "10s");
    return {Treatment::run, command + smaller(words, "ab")};
  }
  if (verb == "bench" && benches().contains(words[1])) return planned_bench(command, words);
  if (verb == "launch" && std::ranges::count(words, "ab"))  // its exit code needs no look here
    return {Treatment::run, planned_arms(command, words).command};
  const bool profiles = verb == "profile" || std::ranges::count(words, "profile");
  if (profiles) set_option(words, command, "--steps", "2:4");
  if (verb == "launch")
    return {Treatment::run, command + smaller(words, profiles ? "profile" : "train")};
  const bool of_config = !value_of(words, "--config").empty();
  const bool diagnoses = of_config && verb == "diagnose";
  if (diagnoses) set_option(words, command, "--seconds", "0.5");
  const size_t stress = command.find("--stress");  // its size may be left out
  if (stress != command.npos && !is_number(value_of(words, "--stress")))
    command.insert(stress + std::string("--stress").size(), " 64");
  if (verb == "train" || verb == "pack" || verb == "plan" || diagnoses || profiles)
    return {Treatment::run, command + smaller(words, verb)};
  return {Treatment::run, command};
}

// tools/train.sh builds the trainer and starts it with the remaining arguments.
static std::string as_trainer(std::string text) {
  const std::string script = "tools/train.sh";
  if (text.starts_with(script))
    text.replace(0, script.size(), "trainer --config configs/lenet.yaml");
  for (const std::string start : {"./run ", "build/"})
    if (text.starts_with(start)) text.erase(0, start.size());
  return text;
}

Planned planned(const std::string& text) {
  const std::string command = as_trainer(filled_in(without_brackets(text)));
  const Strings words = split_command(command);
  if (std::ranges::count(words, "trainer")) {
    for (const std::string& word : words)
      CHECK(!is_placeholder(word), "'", word, "' in '", text,
            "' is a placeholder without a value; add one to kPlaceholders");
    return planned_run(command);
  }
  for (const std::string& word : words)
    if (word.ends_with(".sh") || word.ends_with(".py")) return {Treatment::script, word};
  const std::string program = words[0].substr(words[0].rfind('/') + 1);
  for (const auto& [ending, folder] : {std::pair{"_test", "tests/"}, {"bench_", "peers/"}}) {
    const size_t at = program.find(ending);
    if (at == program.npos) continue;
    std::string name = program;
    return {Treatment::machine, folder + name.erase(at, std::string(ending).size())};
  }
  fail(Exit::usage, "'", text, "' is no command of the trainer, no script and no program");
}

}  // namespace bellows
