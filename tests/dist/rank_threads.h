// Ranks that are threads of one process, over a store in memory.
#pragma once
#include <gtest/gtest.h>
#include <thread>
#include "core/config/values.h"
#include "core/device/parallel.h"
#include "dist/groups/process_group.h"
#include "tests/dist/memory_store.h"
#include "tests/refusal.h"

namespace bellows {

// Calls body(rank) on a thread for each rank. Returns the error of each.
template <class Body> std::vector<Refusal> on_threads(int world, const Body& body) {
  std::vector<Refusal> errors(world);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < world; ++rank)
    threads.emplace_back([&, rank] {
      const SingleThreadScope single;
      errors[rank] = refused([&] { body(rank); });
    });
  threads.clear();
  return errors;
}

struct RankThreads {
  int world = 2;
  DistOptions options = {};
  std::shared_ptr<Store> store = std::make_shared<MemoryStore>();
  std::string backend = "gloo";
  Device device = Device::cpu;
  Values backend_options = {};

  // Calls body(group) for each rank. Returns the error of each.
  template <class Body> std::vector<Refusal> run(const Body& body) const {
    return on_threads(world, [&](int rank) { body(*group_of(rank)); });
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
