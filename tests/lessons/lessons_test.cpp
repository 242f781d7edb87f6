// Every lesson shows what its page says. By default only the commands whose figures are counts, so
// that other programs cannot change them; with BELLOWS_LESSONS=all those that measure time, too, in
// a tenth of their time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cstdlib>
#include "labs/lesson/lesson.h"
#include "tests/place.h"
#include "trainer/verbs/tables.h"

using namespace bellows;

namespace bellows {
void PrintTo(const Lesson& lesson, std::ostream* out) { *out << lesson.name; }
}  // namespace bellows

namespace {
class Lessons : public testing::TestWithParam<Lesson> {};
}  // namespace

// Returns whether a figure of the step depends on time. Threads contend for a lock only while they
// run at the same time, which other programs may prevent.
static bool is_timed(const LessonStep& step) {
  const std::string& verb = step.command[0];
  if (std::ranges::count(step.command, "--budget") || verb == "diagnose" || verb == "bench")
    return true;
  return std::ranges::any_of(step.figures, [](const Figure& figure) {
    for (const char* timed : {"ratio", "cpu_share", "batch_cost", "/step_s", "contended"})
      if (figure.where.find(timed) != std::string::npos) return true;
    return false;
  });
}

static Names in_less_time(Names command) {
  const auto budget = std::ranges::find(command, "--budget");
  if (budget != command.end()) budget[1] = command[0] == "ladder" ? "20s" : "8s";
  return command;
}

TEST_P(Lessons, ShowWhatTheirPagesSay) {
  const char* const wanted = std::getenv("BELLOWS_LESSONS");
  bool ran = false;
  for (const LessonStep& step : GetParam().steps) {
    if (is_timed(step) && !wanted) continue;
    ran = true;
    const CommandOutput output =
        run_command(program_dir() + "/trainer", in_less_time(step.command));
    for (const Figure& figure : step.figures) {
      const SeenFigure seen = look_at(figure, output);
      EXPECT_TRUE(seen.holds) << figure.seen << ": " << seen.value << ", expected "
                              << figure.holds_if;
    }
  }
  if (!ran) GTEST_SKIP() << "all of its figures are times; BELLOWS_LESSONS=all";
}

INSTANTIATE_TEST_SUITE_P(All, Lessons, testing::ValuesIn(lessons()),
                         [](const auto& lesson) { return lesson.param.name; });

// `trainer explain` leads from a toggle and from a statement to its lessons.
TEST(LessonTable, HasTheStatementsAndTogglesOfAPage) {
  const auto table = std::ranges::find(tables(), std::string("lessons"),
                                       [](const Table& t) { return std::string(t.name); });
  ASSERT_NE(table, tables().end());
  EXPECT_THAT(table->rows(), testing::Contains(testing::ElementsAre("mvtec_workers", testing::_,
                                                                    "S3:113, S2:88, num_workers")));
}

// ---- pages

TEST(LessonFigures, HoldWithinTheirBounds) {
  const CommandOutput output = {"lock_contended\n", {{"arms", {{{"ratio", 2.0}, {"n", 3}}}}}};
  const auto holds = [&](const std::string& where, const std::string& holds_if) {
    return look_at({"", where, "", holds_if}, output).holds;
  };
  EXPECT_TRUE(holds("/arms/0/ratio", "1.7 to 2.4"));
  EXPECT_FALSE(holds("/arms/0/ratio", "2.1 to 2.4"));
  EXPECT_TRUE(holds("/arms/0/n", "= 3"));
  EXPECT_FALSE(holds("/arms/0/n", "= 4"));
  EXPECT_TRUE(holds("/arms/0/n : /arms/0/ratio", "at least 1.5"));
  EXPECT_FALSE(holds("/arms/0/n : /arms/0/ratio", "at most 1.4"));
  EXPECT_TRUE(holds("lock_contended", "printed"));
  EXPECT_FALSE(holds("kernel_hot", "printed"));
  EXPECT_FALSE(holds("/arms/1/ratio", "at least 0"));
  EXPECT_EQ(look_at({"", "/arms/1/ratio", "", "at least 0"}, output).value, "missing");
}

// The two files of a mechanism, and the case's config, exist.
TEST_P(Lessons, NameFilesThatExist) {
  EXPECT_TRUE(std::ranges::any_of(GetParam().steps,
                                  [](const LessonStep& step) { return !step.figures.empty(); }));
  std::string text = GetParam().text;
  for (size_t at; (at = text.find("```")) != text.npos;) text.erase(at, 3);  // of a diagram
  int64_t files = 0;
  for (size_t at = 0; (at = text.find('`', at)) != text.npos; ++at) {
    const size_t end = text.find('`', at + 1);
    const std::string name = text.substr(at + 1, end - at - 1);
    at = end;
    if (!name.ends_with(".cpp") && !name.ends_with(".h")) continue;
    ++files;
    EXPECT_TRUE(std::filesystem::exists(source_dir() + "/" + name)) << name;
  }
  EXPECT_GE(files, 1) << "a lesson names what to read";
  EXPECT_LE(std::ranges::count(text, '\n'), 50) << "a page is one screen";
  EXPECT_NE(text.find("\nQuestion: "), text.npos);
}
