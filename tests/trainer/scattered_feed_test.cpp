// The training feed of dp on ranks that are threads: each gets the batches that its own loader
// would deliver, from rank 0.
#include "trainer/session/scattered_feed.h"
#include <gtest/gtest.h>
#include "core/base/trace.h"
#include "tests/data/numbers.h"
#include "tests/dist/thread_ranks.h"
#include "tests/moved.h"

using namespace bellows;

namespace {

constexpr int64_t kBatch = 4;

std::unique_ptr<Loader> loader_of(DatasetPtr set, const ThreadGroup& group, Uneven uneven,
                                  int rank) {
  LoaderOptions options;
  options.sampler.batch_size = kBatch;
  return std::make_unique<Loader>(
      std::move(set), std::vector<TransformChoice>{}, options, 7,
      RankShare{.rank = rank, .world = group.world(), .uneven = uneven});
}

}  // namespace

TEST(ScatteredFeed, DeliversWhatTheLoaderOfEachRankWould) {
  constexpr int kWorld = 3;
  for (const Uneven uneven : {Uneven::drop, Uneven::pad, Uneven::join})
    for (const int64_t samples : {29, 25}) {  // 5 or 1 beside two rounds
      const Moved bytes("dist.root_bytes");
      int64_t batches = 0;
      on_ranks(kWorld, [&](ThreadGroup& group) {
        const auto read_by_root = std::make_shared<Numbers>(samples);
        read_by_root->on_read = [&](int64_t) { ASSERT_EQ(group.rank(), 0); };
        const auto expected =
            loader_of(std::make_shared<Numbers>(samples), group, uneven, group.rank());
        std::vector<std::unique_ptr<Loader>> loaders;
        std::vector<Feed*> feeds;
        for (int rank = 0; rank < kWorld; ++rank)
          loaders.push_back(loader_of(read_by_root, group, uneven, rank));
        for (const auto& loader : loaders)
          if (group.rank() == 0) feeds.push_back(loader.get());
        Loader& mine = *loaders[group.rank()];
        const auto feed = scattered_feed(group, mine, feeds, buffers_on(Device::cpu, mine));
        for (const int64_t epoch : {0, 1}) {
          feed->start(epoch, epoch);  // the second one from its second batch
          expected->start(epoch, epoch);
          Batch a, b;
          while (expected->next(a)) {
            ASSERT_TRUE(feed->next(b));
            if (group.rank() == 0) ++batches;
            ASSERT_EQ(a.x.shape(), b.x.shape());
            for (int64_t i = 0; i < a.size(); ++i) {
              EXPECT_EQ(index_of(a, i), index_of(b, i));
              EXPECT_EQ(a.y.ptr<int64_t>()[i], b.y.ptr<int64_t>()[i]);
            }
          }
          EXPECT_FALSE(feed->next(b));
        }
      });
      EXPECT_EQ(bytes, batches * (kWorld - 1) * kBatch * (4 * 4 + 8));
    }
}
