// Memory that ranks share, directly: who may share it, and messages that do not fit together.
#include "dist/groups/shared_memory.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <thread>
#include "tests/dist/memory_store.h"
#include "tests/refusal.h"

using namespace bellows;
using testing::HasSubstr;

namespace {

constexpr Timeout kPatience(20'000);

// Calls body(memory, rank) on a thread for each rank. Returns the error of each.
template <class Body>
std::vector<Refusal> on_ranks(int world, const Body& body, const std::set<int>& unwilling = {},
                              const std::function<void(int)>& prepare = {}) {
  MemoryStore store;
  std::vector<Refusal> errors(world);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < world; ++rank)
    threads.emplace_back([&, rank] {
      if (prepare) prepare(rank);
      Ranks ranks;
      ranks.rank = rank;
      ranks.world = world;
      const auto memory =
          SharedMemory::join(ranks, store, "test/", kPatience, !unwilling.contains(rank));
      errors[rank] = refused([&] { body(memory.get(), rank); });
    });
  threads.clear();
  return errors;
}

SharedMemory::Message message_of(const std::vector<std::byte>& values) {
  return {.mine = values.data(),
          .bytes = values.size(),
          .read = [](size_t, size_t, const SharedMemory::Chunks&) {}};
}

}  // namespace

TEST(SharedMemory, IsRefusedToAllIfOneRankIsUnwilling) {
  for (const int unwilling : {0, 2})
    on_ranks(3, [](SharedMemory* memory, int) { EXPECT_EQ(memory, nullptr); }, {unwilling});
}

TEST(SharedMemory, IsRefusedToMoreRanksThanItServes) {
  on_ranks(8, [](SharedMemory* memory, int) { EXPECT_NE(memory, nullptr); });
  on_ranks(9, [](SharedMemory* memory, int) { EXPECT_EQ(memory, nullptr); });
}

// Their link may be limited on purpose.
TEST(SharedMemory, IsRefusedAcrossNetworkNamespaces) {
  std::atomic<bool> allowed = true;
  on_ranks(
      2, [&](SharedMemory* memory, int) { EXPECT_EQ(memory == nullptr, allowed); }, {},
      [&](int rank) {
        if (rank == 1 && unshare(CLONE_NEWNET) != 0) allowed = false;
      });
  if (!allowed) GTEST_SKIP() << "no network namespaces here";
}

TEST(SharedMemory, CarriesManyMessagesOfAllSizes) {
  const auto value = [](int rank, size_t message, size_t i) {
    return std::byte(rank * 31 + message * 7 + i % 251);
  };
  const auto errors = on_ranks(3, [&](SharedMemory* memory, int rank) {
    for (size_t k = 0; k < 400; ++k) {
      std::vector<std::byte> mine(k % 10 == 9 ? 3'000'001 : k * 331);
      for (size_t i = 0; i < mine.size(); ++i) mine[i] = value(rank, k, i);
      size_t wrong = 0, seen = 0;
      SharedMemory::Message message = message_of(mine);
      message.read = [&](size_t offset, size_t bytes, const SharedMemory::Chunks& chunks) {
        wrong += offset != seen;
        seen += bytes;
        for (size_t r = 0; r < chunks.size(); ++r)
          for (size_t i = 0; i < bytes; i += 97)
            wrong += chunks[r][i] != value(int(r), k, offset + i);
      };
      memory->number(message);
      memory->put(message);
      memory->finish(message, kPatience);
      ASSERT_EQ(wrong, 0U) << k;
      ASSERT_EQ(seen, mine.size());
    }
  });
  for (const Refusal& error : errors) EXPECT_EQ(error.message, "no error");
}

// A rank that has put its message may leave or compute.
TEST(SharedMemory, NeedsNothingMoreOfARankThatHasPutItsMessage) {
  const std::vector<std::byte> values(100'000);
  const auto errors = on_ranks(2, [&](SharedMemory* memory, int rank) {
    SharedMemory::Message message = message_of(values);
    memory->number(message);
    EXPECT_TRUE(memory->put(message));
    if (rank == 0) memory->finish(message, kPatience);
  });
  EXPECT_EQ(errors[0].message, "no error");
}

TEST(SharedMemory, RefusesMessagesOfDifferentSizes) {
  const auto errors = on_ranks(2, [&](SharedMemory* memory, int rank) {
    const std::vector<std::byte> values(rank ? 404 : 400);
    SharedMemory::Message message = message_of(values);
    memory->number(message);
    memory->finish(message, kPatience);
  });
  EXPECT_THAT(errors[0].message, HasSubstr("rank 1 sends 404 bytes, this rank 400"));
  EXPECT_THAT(errors[1].message, HasSubstr("rank 0 sends 400 bytes, this rank 404"));
}

TEST(SharedMemory, EndsTheWaitOfAllRanksWhenOneCloses) {
  const std::vector<std::byte> values(400);
  const auto begin = std::chrono::steady_clock::now();
  const auto errors = on_ranks(3, [&](SharedMemory* memory, int rank) {
    SharedMemory::Message message = message_of(values);
    memory->number(message);
    if (rank == 2) {
      std::this_thread::sleep_for(Timeout(20));  // until the others sleep
      memory->close();
      return;
    }
    memory->finish(message, kPatience);
  });
  for (const int rank : {0, 1}) EXPECT_EQ(errors[rank].message, "closed by peer");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience / 2);
}

TEST(SharedMemory, WaitsNoLongerThanItsTimeout) {
  const std::vector<std::byte> values(400);
  const auto errors = on_ranks(2, [&](SharedMemory* memory, int rank) {
    SharedMemory::Message message = message_of(values);
    memory->number(message);
    if (rank == 0) memory->finish(message, Timeout(30));
  });
  EXPECT_EQ(errors[0].message, "timed out");
  EXPECT_EQ(errors[0].exit, Exit::distributed);
}
