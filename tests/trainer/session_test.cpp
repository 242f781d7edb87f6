// Notes of a session about its plan before it trains.
#include "trainer/session/session.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "core/config/values.h"
#include "tests/refusal.h"

using namespace bellows;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

static Plan reserving(const char* megabytes) {
  return load(Plan{}, {{"device", {"cpu"}},
                       {"data.train_size", {"8"}},
                       {"data.test_size", {"8"}},
                       {"data.batch_size", {"8"}},
                       {"allocator.reserve_mb", {megabytes}}});
}

TEST(SessionNotes, ReportAReserveThatHasNoEffect) {
  Plan plan = reserving("1");
  EXPECT_THAT(Session(plan).notes, Contains(HasSubstr("allocator.reserve_mb: no effect")));
  plan.allocator.caching = true;
  EXPECT_THAT(Session(plan).notes, Not(Contains(HasSubstr("reserve_mb"))));
  configure_allocator(Device::cpu, {});
}

TEST(Plan, RefusesAReserveLargerThanAnyMemory) {
  const Refusal refused_ = refused([] { reserving("9000000000000"); });
  EXPECT_EQ(refused_.exit, Exit::usage);
  EXPECT_THAT(refused_.message, HasSubstr("allocator.reserve_mb"));
}
