// Lifetime of the queue between workers and trainer. tests/data/loader_test.cpp has the rest.
#include "data/loader/batch_queue.h"
#include <gtest/gtest.h>

using namespace bellows;

// An abandoned worker may still hold the queue, and be inside a push, after the loader is gone.
TEST(BatchQueue, OwnsWhatAPushCounts) {
  for (const QueueKind kind : {QueueKind::locked, QueueKind::rings}) {
    auto depth = std::make_shared<Depth>();
    const std::weak_ptr<Depth> counted = depth;
    const auto queue = make_queue(kind, 1, 1, std::move(depth));
    EXPECT_FALSE(counted.expired());
    EXPECT_TRUE(queue->push(0, {}));
  }
}
