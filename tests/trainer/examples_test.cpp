// The programs in examples/, and the configs that the project ships.
#include <cstdlib>
#include <filesystem>
#include <set>
#include "core/config/config.h"
#include "plan/toggle.h"
#include "tests/place.h"
#include "tests/trainer/rank_programs.h"

using namespace bellows;
namespace fs = std::filesystem;

namespace {
class LoopExample : public RankPrograms {
 protected:
  std::string program() const override { return program_dir() + "/loop"; }
  // Returns the losses that it prints, in the order of epochs.
  static std::vector<double> losses_in(const std::string& out) {
    std::vector<double> losses;
    for (const std::string& line : lines_of(out))
      losses.push_back(std::stod(line.substr(line.find("loss ") + 5)));
    return losses;
  }
};
}  // namespace

TEST_F(LoopExample, LearnsTheSameInEachRun) {
  const std::string out = succeed({});
  const std::vector<double> losses = losses_in(out);
  ASSERT_EQ(losses.size(), 2);
  EXPECT_LT(losses[1], 0.8 * losses[0]);
  EXPECT_EQ(succeed({}), out);
}

TEST_F(LoopExample, LearnsOnTwoRanks) {
  for (const Ended& rank : run_ranks(2, {})) {
    EXPECT_EQ(rank.code, 0) << rank.err;
    const std::vector<double> losses = losses_in(rank.out);
    ASSERT_EQ(losses.size(), 2);
    EXPECT_LT(losses[1], 0.95 * losses[0]);
  }
}

namespace {
class InstalledEngine : public LoopExample {
 protected:
  std::string program() const override { return (folder_ / "mine/loop").string(); }
  void cmake(const std::string& args) const {
    const std::string log = (folder_ / "log").string();
    EXPECT_EQ(std::system(cat("cmake ", args, " > '", log, "' 2>&1").c_str()), 0) << read(log);
  }
};
}  // namespace

TEST_F(InstalledEngine, TrainsInAProjectOfItsOwn) {
#ifdef BELLOWS_SANITIZED
  GTEST_SKIP() << "not installed";
#endif
  if (!std::filesystem::exists(source_dir() + "/examples")) GTEST_SKIP() << "no sources";
  const std::string folder = folder_.string(), prefix = folder + "/engine";
  cmake(cat("--install '", build_dir(), "' --component engine --prefix '", prefix, "'"));
  for (const char* place : {source_dir().c_str(), build_dir().c_str()})
    EXPECT_THAT(read(prefix + "/lib/cmake/Bellows/BellowsConfig.cmake"), Not(HasSubstr(place)));
  cmake(cat("-G Ninja -S '", source_dir(), "/examples' -B '", folder,
            "/mine' -DCMAKE_PREFIX_PATH='", prefix, "'"));
  cmake(cat("--build '", folder, "/mine'"));
  const Ended ended = run({}, [] {
    for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}) unsetenv(name);
    setenv("OMP_DISPLAY_ENV", "verbose", /*overwrite=*/1);
  });
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(losses_in(ended.out).size(), 2);
  EXPECT_THAT(ended.err, HasSubstr("GOMP_SPINCOUNT = '10000'")) << "set before libgomp reads it";
}

static std::set<std::string> configs_in(const char* folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(fs::path(source_dir()) / folder))
    if (entry.is_regular_file()) names.insert(entry.path().filename());
  return names;
}
static Config load_config(const std::string& file) {
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
      const Config config = load_config(cat("configs/", folder, file));
      EXPECT_EQ(config.preset, preset) << folder << file;
      EXPECT_TRUE(runs.insert(config.options.name).second) << config.options.name << " is taken";
    }
}

TEST(Configs, OfRanksHaveNamesOfTheirOwnAndTheJointBatchOfTheirBase) {
  const std::set<std::string> names = configs_in("configs/ddp");
  ASSERT_FALSE(names.empty());
  for (const std::string& file : names) {
    const Plan plan = load_config("configs/ddp/" + file).plan,
               base = load_config("configs/" + file).plan;
    EXPECT_EQ(plan.name, base.name + "_ddp");
    EXPECT_EQ(2 * plan.data.loader.sampler.batch_size, base.data.loader.sampler.batch_size) << file;
  }
}
