// The configs that the project ships, and the claims about them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <filesystem>
#include <set>
#include "core/config/config.h"
#include "plan/toggle.h"
#include "tests/place.h"

using namespace bellows;
namespace fs = std::filesystem;

static std::set<std::string> configs_in(const char* folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(fs::path(source_dir()) / folder))
    if (entry.is_regular_file()) names.insert(entry.path().filename());
  return names;
}
static Config config_of(const std::string& file) {
  return make_config(read_config(fs::path(source_dir()) / file));
}

TEST(Configs, ComePlainAndFastUnderTheirOwnNames) {
  const std::set<std::string> names = configs_in("configs");
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(configs_in("configs/plain"), names);
  EXPECT_EQ(configs_in("configs/fast"), names);
  std::set<std::string> runs;
  for (const std::string& file : names)
    for (const auto& [folder, preset] :
         {std::pair("", "default"), std::pair("plain/", "none"), std::pair("fast/", "all")}) {
      const Config config = config_of(cat("configs/", folder, file));
      EXPECT_EQ(config.preset, preset) << folder << file;
      EXPECT_TRUE(runs.insert(config.options.name).second) << config.options.name << " is taken";
    }
}

TEST(Configs, OfRanksHaveNamesOfTheirOwnAndTheJointBatchOfTheirBase) {
  const std::set<std::string> names = configs_in("configs/ddp");
  ASSERT_FALSE(names.empty());
  for (const std::string& file : names) {
    const Plan plan = config_of("configs/ddp/" + file).plan,
               base = config_of("configs/" + file).plan;
    EXPECT_EQ(plan.name, base.name + "_ddp");
    EXPECT_EQ(2 * plan.data.loader.sampler.batch_size, base.data.loader.sampler.batch_size) << file;
  }
}
