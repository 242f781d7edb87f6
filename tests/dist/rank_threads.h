// Ranks that are threads of one process, over a store in memory.
#pragma once
#include <gtest/gtest.h>
#include <thread>
#include "core/config/values.h"
#include "core/device/parallel.h"
#include "dist/groups/process_group.h"
#include "tests/dist/memory_store.h"
#include "tests/dist/ranks.h"
#include "tests/refusal.h"

namespace bellows {

struct RankThreads {
  int world = 2;
  DistOptions options = {};
  std::shared_ptr<Store> store = std::make_shared<MemoryStore>();
  std::string backend = "gloo";
  Device device = Device::cpu;
  Values backend_options = {};

  // Calls body(group) for each rank. Returns the error of each.
  template <class Body> std::vector<Refusal> run(const Body& body) const {
    std::vector<Refusal> errors(world);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < world; ++rank)
      threads.emplace_back([&, rank] {
        const SingleThreadScope single;
        errors[rank] = refused([&] { body(*group_of(rank)); });
      });
    for (std::thread& thread : threads) thread.join();
    return errors;
  }

  std::unique_ptr<ProcessGroup> group_of(int rank) const {
    const GroupContext context{place_of_rank(rank, world), store, device, options};
    Choice<MakeGroup> choice(backend);
    Load load(backend_options);
    choice.visit_options(load);
    return choice.make(context);
  }
};

inline void expect_no_errors(const std::vector<Refusal>& errors) {
  for (const Refusal& error : errors) EXPECT_EQ(error.message, "no error");
}

}  // namespace bellows
