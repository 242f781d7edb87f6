// Counters, ranges and module paths.
#include "core/base/trace.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>
#include "core/base/check.h"
#include "core/base/module_path.h"

using namespace bellows;
using testing::ElementsAre;

TEST(Counter, IsOnePerNameAndNeverMoves) {
  trace::Counter& counter = trace::counter("test.one");
  for (int i = 0; i < 100; ++i) trace::counter(cat("test.other.", i));
  EXPECT_EQ(&trace::counter("test.one"), &counter);
  counter.add();
  counter.add(4);
  trace::count<"test.one">();
  trace::count<"test.one">(2);
  EXPECT_EQ(trace::counters().at("test.one"), 8);
}

TEST(Counter, CountsFromManyThreads) {
  trace::Counter& sum = trace::counter("test.sum");
  trace::Counter& peak = trace::counter("test.peak");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10'000; ++i) sum.add(), peak.raise_to(i * 4 + t);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum.value(), 40'000);
  EXPECT_EQ(peak.value(), 39'999);
  peak.raise_to(5);
  EXPECT_EQ(peak.value(), 39'999) << "a peak never falls";
}

static std::vector<std::string> names(const std::vector<trace::Event>& events) {
  std::vector<std::string> names;
  for (const trace::Event& event : events) names.emplace_back(event.name);
  return names;
}

class Ranges : public testing::Test {
 protected:
  Ranges() {
    trace::take_events();
    trace::collect(true);
  }
  ~Ranges() override {
    trace::collect(false);
    trace::take_events();
  }
};

TEST_F(Ranges, NestInsideEachOther) {
  {
    const trace::Range outer("outer");
    { const trace::Range first("first"); }
    { const trace::Range second("second"); }
  }
  const auto events = trace::take_events();
  ASSERT_THAT(names(events), ElementsAre("first", "second", "outer"));
  const auto& [first, second, outer] = std::tie(events[0], events[1], events[2]);
  EXPECT_LE(outer.begin_ns, first.begin_ns);
  EXPECT_LE(first.begin_ns, first.end_ns);
  EXPECT_LE(first.end_ns, second.begin_ns);
  EXPECT_LE(second.end_ns, outer.end_ns);
  EXPECT_TRUE(trace::take_events().empty()) << "events are handed out once";
}

TEST_F(Ranges, SayInWhichModuleAndThreadTheyRan) {
  {
    const ModuleScope at(site_of("layer1.conv2"));
    const trace::Range range("conv");
  }
  std::thread([] { const trace::Range elsewhere("elsewhere"); }).join();
  const auto events = trace::take_events();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].path, "layer1.conv2");
  EXPECT_EQ(events[1].path, "");
  EXPECT_NE(events[0].thread, events[1].thread);
}

TEST_F(Ranges, CostNothingWhileNobodyCollects) {
  trace::collect(false);
  {
    const trace::Range begun_unseen("begun unseen");
    trace::collect(true);
  }
  EXPECT_TRUE(trace::take_events().empty());
}

// ---- module paths

TEST(ModulePath, IsInternedAndRestored) {
  const ModuleSite& conv = site_of("conv1");
  EXPECT_EQ(&site_of("conv1"), &conv);
  EXPECT_NE(site_of("conv2").hash, conv.hash);
  {
    const ModuleScope outer(conv);
    { const ModuleScope inner(site_of("conv1.inner")); }
    EXPECT_EQ(current_site(), &conv);
  }
  EXPECT_EQ(current_site()->path, "");
}

TEST(ModulePath, HashesPathsThatDifferInOneLetterFarApart) {
  std::set<uint64_t> upper;
  for (int i = 0; i < 100; ++i) upper.insert(site_of(cat("layer", i, ".weight")).hash >> 32);
  EXPECT_EQ(upper.size(), 100u);
}
