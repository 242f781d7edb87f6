// The queue between workers and trainer: of its life; loader_test has the rest.
#include "data/loader/batch_queue.h"
#include <gtest/gtest.h>

using namespace bellows;

// A worker that was given up on may hold it after the loader is gone, and be in the midst of a
// push.
TEST(BatchQueue, OwnsWhatAPushCounts) {
  for (const QueueKind kind : {QueueKind::locked, QueueKind::rings}) {
    auto depth = std::make_shared<Depth>();
    const std::weak_ptr<Depth> counted = depth;
    const auto queue = make_queue(kind, 1, 1, std::move(depth));
    EXPECT_FALSE(counted.expired());
    EXPECT_TRUE(queue->push(0, {}));
  }
}
