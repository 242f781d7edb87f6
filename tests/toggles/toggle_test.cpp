// Every toggle is fully described, owns what it sets, and is the only way to set it.
#include "plan/toggle.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <fstream>
#include <regex>
#include <set>
#include "tests/place.h"
#include "tests/plans.h"
#include "tests/refusal.h"

using namespace bellows;
using testing::StartsWith;

// By name, because a planted toggle moves the others in memory.
class EachToggle : public testing::TestWithParam<std::string> {
 protected:
  const Toggle& toggle = *find_toggle(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Toggles, EachToggle, testing::ValuesIn(toggle_names()),
                         [](const auto& info) { return info.param; });

static Values values(const std::map<std::string, std::string>& texts) {
  Values values;
  for (const auto& [key, text] : texts) values[key] = {text, "test"};
  return values;
}
static Config configured(const std::map<std::string, std::string>& texts) {
  return make_config({values(texts)});
}
static std::string config_refusal(const std::map<std::string, std::string>& texts) {
  return refusal([&] { configured(texts); });
}

// Returns `value`, or off if it has no effect on this machine.
static std::string here(const Toggle& toggle, const std::string& value) {
  return no_effect(toggle, DeviceChoice::automatic, value).empty() ? value : toggle.off();
}

static bool accepts(const Toggle& toggle, const std::string& text) {
  int64_t number = 0;
  return std::ranges::count(toggle.values, text) ||
         (toggle.numbers && make_option(number, *toggle.numbers).read(text));
}

static std::string text_of(const std::string& file) {
  std::ifstream in(cat(source_dir(), "/", file));
  return {std::istreambuf_iterator<char>(in), {}};
}

// ---- its description

TEST_P(EachToggle, SaysAllThereIsToSay) {
  for (const char* text :
       {toggle.idea, toggle.claim, toggle.cost, toggle.sources, toggle.footprint, toggle.what})
    EXPECT_TRUE(text && *text) << "a field is empty";
  EXPECT_NE(text_of(toggle.file), "") << toggle.file;
  EXPECT_FALSE(toggle.key_point.empty());
  EXPECT_GT(toggle.values.size(), 1u);
  EXPECT_NE(toggle.enable == nullptr, toggle.set == nullptr) << "one of them changes the plan";
  EXPECT_EQ(toggle.set != nullptr, toggle.values.size() > 2 || toggle.numbers) << "takes a value";
  EXPECT_TRUE(accepts(toggle, toggle.default_value)) << toggle.default_value;
  EXPECT_TRUE(!*toggle.fast || accepts(toggle, toggle.fast)) << toggle.fast;
}

// `code` is "file: function". The function is called or defined in that file.
TEST_P(EachToggle, LeadsToItsCode) {
  const std::string code = toggle.code, file = code.substr(0, code.find(": "));
  ASSERT_LT(file.size(), code.size()) << code;
  EXPECT_TRUE(
      std::regex_search(text_of(file), std::regex("\\b" + code.substr(file.size() + 2) + "\\(")))
      << code;
  EXPECT_THAT(toggle.elsewhere, testing::ContainsRegex("^PyTorch: .+; Paddle: .+$"));
  EXPECT_LE(std::string(toggle.what).size(), 42u) << "too long for `trainer list toggles`";
}

TEST_P(EachToggle, HasNamesOfItsOwn) {
  Names mine = toggle.aliases;
  mine.push_back(toggle.name);
  for (const std::string& name : mine)
    for (const Toggle& other : toggles())
      EXPECT_TRUE(&other == &toggle ||
                  (name != other.name && !std::ranges::count(other.aliases, name)))
          << name << " is a name of " << other.name << ", too";
}

TEST_P(EachToggle, RefersToWhatExists) {
  const std::set<std::string> features = {"cuda", "cpu", "bf16", "numa", "ranks"};
  for (const std::string& need : toggle.needs)
    EXPECT_NE(features.contains(need.substr(need.find('=') + 1)), find_toggle(need) != nullptr)
        << "needs " << need;
  for (const std::string& other : toggle.supersedes)
    EXPECT_TRUE(find_toggle(other)) << "supersedes " << other;
  // "S0:12,13 S1:27": statements 12 and 13 of the first source, 27 of the second.
  const std::string sources = toggle.sources;
  const std::regex part("(S[0-9]:)|[0-9]+"), all("none|(S[0-9]:[0-9]+(,[0-9]+)* ?)+");
  EXPECT_TRUE(std::regex_match(sources, all)) << sources;
  std::string source;
  for (std::sregex_iterator at(sources.begin(), sources.end(), part), end; at != end; ++at)
    if ((*at)[1].matched)
      source = at->str();
    else
      EXPECT_THAT(text_of("docs/seeds.md"),
                  testing::HasSubstr(cat("\n| ", source, at->str(), " |")));
}

// ---- its options

TEST_P(EachToggle, ChangesAnOptionThatNobodyElseChanges) {
  int64_t owned = 0;
  for (const auto& [key, owner] : option_owners()) owned += owner == &toggle;  // throws for two
  EXPECT_GT(owned, 0);
  EXPECT_EQ(dump(switched(Plan{}, toggle, toggle.off())), dump(Plan{})) << "off is the plain plan";
}

TEST_P(EachToggle, CountsNothingWhenItIsSet) {
  const auto before = trace::counters();
  for (const std::string& value : toggle.values) switched(Plan{}, toggle, value);
  EXPECT_EQ(trace::counters(), before) << "a footprint counts the mechanism, not the setting";
}

TEST_P(EachToggle, IsTheOnlyWayToSetItsOptions) {
  for (const auto& [key, owner] : option_owners()) {
    if (owner != &toggle) continue;
    for (const std::string& value : toggle.values)
      EXPECT_EQ(config_refusal({{key, dump(switched(Plan{}, toggle, value)).at(key).text}}),
                cat("test: ", key, " is set by a toggle; write  toggles: {", toggle.name, ": ",
                    value, "}"));
    EXPECT_THAT(config_refusal({{key, "nonsense"}}),
                StartsWith(cat("test: ", key, " is set by a toggle; write  toggles: {")));
  }
}

TEST_P(EachToggle, TakesEachOfItsValuesAndNoOther) {
  const std::string key = cat("toggles.", toggle.name);
  std::map<std::string, std::string> given{{"toggles", "none"}}, expected;
  for (const std::string& need : toggle.needs) {
    if (!find_toggle(need)) continue;
    const Toggle& needed = *find_toggle(need);
    given["toggles." + need] = needed.values.back();
    expected[need] = here(needed, needed.values.back());
  }
  for (const std::string& value : toggle.values) {
    given[key] = value;
    expected[toggle.name] = here(toggle, value);
    EXPECT_EQ(dump(configured(given).plan), dump(with_toggles(Plan{}, expected))) << value;
  }
  EXPECT_THAT(config_refusal({{key, "maybe"}}),
              StartsWith(cat("test: ", key, ": 'maybe' is not ", toggle.off(), " or ")));
}

// ---- presets and order

TEST(Presets, NoneIsThePlainPlanAndSilenceTheDefault) {
  EXPECT_EQ(dump(configured({{"toggles", "none"}}).plan), dump(Plan{}));
  const Config silent = configured({});
  EXPECT_EQ(dump(silent.plan), dump(configured({{"toggles", "default"}}).plan));
  for (const Toggle& toggle : toggles())
    EXPECT_EQ(silent.toggles.at(toggle.name).text, here(toggle, toggle.default_value))
        << toggle.name;
}

TEST(Presets, AllTakesWhatIsFastAndLeavesTheRest) {
  const Config all = configured({{"toggles", "all"}});
  for (const Toggle& toggle : toggles())
    EXPECT_EQ(all.toggles.at(toggle.name).text,
              here(toggle, *toggle.fast ? toggle.fast : toggle.default_value))
        << toggle.name;
}

TEST(Presets, ATogglesOwnLineWinsOverThePresetOfItsSource) {
  const Config config = configured({{"toggles", "none"}, {"toggles.fused_optimizer", "on"}});
  EXPECT_TRUE(config.plan.optimizer.fused);
  EXPECT_EQ(config.toggles.at("fused_optimizer").origin, "test");
  EXPECT_EQ(config.toggles.at("set_to_none").origin, "toggles: none");
  EXPECT_EQ(config_refusal({{"toggles", "some"}}),
            "test: toggles: 'some' is not default, all or none, nor a map of toggles");
  for (const char* item : {"toggles.0", "toggles.0.amp"})
    EXPECT_EQ(config_refusal({{item, "on"}}),
              "test: toggles: a list; write a map, such as  toggles: {amp: on}");
}

// ---- toggles that this machine cannot run

TEST(Machine, WithoutAGpuAToggleStaysOffAndSaysSo) {
  const auto on_the_cpu = [](const std::string& key, const std::string& value) {
    return configured({{"device", "cpu"}, {key, value}});
  };
  const Config asked = on_the_cpu("toggles.pin_memory", "on");
  EXPECT_EQ(asked.notes, Names{"pin_memory: no effect without a GPU"});
  EXPECT_EQ(asked.toggles.at("pin_memory").text, "off");
  EXPECT_EQ(asked.toggles.at("pin_memory").origin, "off, no effect without a GPU");
  EXPECT_FALSE(asked.plan.data.loader.batch.pin_memory);
  const Config preset = on_the_cpu("toggles", "all");
  EXPECT_EQ(preset.notes, Names{}) << "nobody asked for it by name";
  EXPECT_FALSE(preset.plan.data.loader.batch.pin_memory);
  EXPECT_EQ(on_the_cpu("toggles.pin_memory", "off").notes, Names{});
}

TEST(Deterministic, ExcludesWhatMayChooseDifferently) {
  EXPECT_EQ(config_refusal({{"deterministic", "on"}, {"toggles.kernel_autotune", "benchmark"}}),
            "test: kernel_autotune: benchmark and  deterministic: on  exclude each other; remove "
            "one of them");
  const Config preset = configured({{"deterministic", "on"}, {"toggles", "all"}});
  EXPECT_EQ(preset.toggles.at("kernel_autotune").origin, "off, deterministic is on");
  EXPECT_EQ(preset.plan.kernels.autotune, Autotune::heuristic);
}

// ---- planted toggles that break a rule; each is registered during its lifetime

namespace {
struct Planted {
  explicit Planted(const Toggle& toggle) { toggles().push_back(toggle); }
  ~Planted() {
    toggles().pop_back();
    option_owners();
  }
};
Toggle like_fused_optimizer(void (*enable)(Plan&)) {
  Toggle toggle = *find_toggle("fused_optimizer");
  toggle.name = "planted";
  toggle.aliases = {"elsewhere"};
  toggle.default_value = "off";
  toggle.enable = enable;
  return toggle;
}
}  // namespace

TEST(PlantedToggle, ThatTakesAnothersOptionIsFound) {
  const Planted thief(like_fused_optimizer([](Plan& plan) { plan.optimizer.set_to_none = true; }));
  const Refusal refusal = refused([] { option_owners(); });
  EXPECT_EQ(refusal.exit, Exit::internal);
  EXPECT_THAT(refusal.message,
              testing::HasSubstr("planted and set_to_none both set optimizer.set_to_none"));
}

TEST(PlantedToggle, ThatLacksWhatItNeedsSaysWhatToType) {
  Toggle toggle = like_fused_optimizer([](Plan& plan) { plan.train.max_nonfinite = 7; });
  toggle.needs = {"caching_allocator"};
  const Planted needy(toggle);
  EXPECT_EQ(config_refusal({{"toggles", "none"}, {"toggles.planted", "on"}}),
            "test: planted needs caching_allocator; write  toggles: {caching_allocator: on}");
  EXPECT_EQ(configured({{"toggles.planted", "on"}}).plan.train.max_nonfinite, 7);
}

// A toggle that a preset requested stays off, with the reason, if it lacks what it needs. So does a
// toggle that needs it in turn.
TEST(PlantedToggle, OfAPresetStaysOffWithoutWhatItNeeds) {
  Toggle toggle = like_fused_optimizer([](Plan& plan) { plan.train.max_nonfinite = 7; });
  toggle.needs = {"preallocate"};
  const Planted needy(toggle);
  const Config config = configured({{"toggles", "all"}, {"toggles.caching_allocator", "off"}});
  EXPECT_EQ(config.toggles.at("preallocate").text, "off");
  EXPECT_EQ(config.toggles.at("planted").text, "off");
  EXPECT_EQ(config.toggles.at("planted").origin, "off, it needs preallocate");
}

TEST(PlantedToggle, IsKnownByItsOtherNamesAndMissedByNone) {
  const Planted planted(like_fused_optimizer([](Plan& plan) { plan.train.max_nonfinite = 7; }));
  EXPECT_EQ(config_refusal({{"toggles.elsewhere", "on"}}),
            "test: unknown toggle 'elsewhere', it is called 'planted' here");
  EXPECT_EQ(config_refusal({{"toggles.plantd", "on"}}),
            "test: unknown toggle 'plantd', the nearest one is 'planted'");
}

TEST(RemovedNames, AreToldTheReason) {
  EXPECT_EQ(
      config_refusal({{"toggles.huge_pages", "on"}}),
      "test: unknown toggle 'huge_pages': removed in 0.2, because no measurement showed a gain");
  EXPECT_EQ(
      config_refusal({{"train.dry_updates", "3"}}),
      "test: unknown key 'train.dry_updates', removed in 0.2, because no measurement showed a "
      "gain");
  EXPECT_EQ(config_refusal({{"optimizer.name", "muon"}}),
            "test: optimizer.name: 'muon' is not adam or adamw or sgd; removed in 0.2, because it "
            "served one recipe of CIFAR-10 only");
}

TEST(DeviceOption, ReadsWhatItPrintsAndNoOtherText) {
  DeviceChoice choice = DeviceChoice::automatic;
  const Option option = make_option(choice, Bounds());
  EXPECT_EQ(option.text, "auto");
  for (const std::string text : {"auto", "cpu", "cuda", "cuda:0", "cuda:15"}) {
    EXPECT_TRUE(option.read(text)) << text;
    EXPECT_EQ(choice.text(), text);
  }
  EXPECT_EQ(choice.kind, DeviceChoice::cuda);
  EXPECT_EQ(choice.gpu, 15);
  for (const std::string text : {"", "CUDA", "gpu", "cpu:0", "cuda:", "cuda:-1", "cuda:01",
                                 "cuda:1x", "cuda: 1", "cuda:99999999999", "cuda:0,1"})
    EXPECT_FALSE(option.read(text)) << text;
  EXPECT_EQ(choice.text(), "cuda:15");
}
