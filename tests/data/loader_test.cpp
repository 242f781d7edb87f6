// Order, content, counters and errors of the loader, for any number of workers.
#include "data/loader/loader.h"
#include <map>
#include <semaphore>
#include "core/tensor/copy.h"
#include "tests/data/files.h"
#include "tests/data/numbers.h"
#include "tests/moved.h"
#include "tests/trainer/processes.h"

using namespace bellows;

static Loader make(const LoaderOptions& options, int64_t samples = 103) {
  return Loader(std::make_shared<Numbers>(samples), {}, options, 5);
}

static std::vector<LoaderOptions> grid() {
  std::vector<LoaderOptions> all;
  for (const int64_t workers : {0, 1, 2, 4})
    for (const int64_t prefetch : {0, 1, 3})
      for (const QueueKind queue : {QueueKind::locked, QueueKind::rings})
        for (const bool persistent : {false, true})
          all.push_back({.sampler = {.batch_size = 8},
                         .workers = {.num_workers = workers,
                                     .prefetch_factor = prefetch,
                                     .persistent_workers = persistent,
                                     .queue = queue}});
  return all;
}

TEST(Loader, DeliversTheSameForAnyNumberOfWorkersPrefetchAndQueue) {
  Loader alone = make({.sampler = {.batch_size = 8}});
  const auto first = epoch_of(alone, 0), second = epoch_of(alone, 1);
  EXPECT_NE(first, second);
  EXPECT_EQ(std::set(first.begin(), first.end()).size(), 103u);
  for (const LoaderOptions& options : grid()) {
    Loader loader = make(options);
    EXPECT_EQ(epoch_of(loader, 0), first);
    EXPECT_EQ(epoch_of(loader, 1), second);
  }
}

TEST(Loader, WritesNhwcBatchesWithoutATranspose) {
  const auto shapes = DatasetChoice("shapes").make({Split::train});
  Loader planes(shapes, {}, {.sampler = {.batch_size = 6}}, 5),
      pixels(shapes, {}, {.sampler = {.batch_size = 6}, .batch = {.channels_last = true}}, 5);
  planes.start(0), pixels.start(0);
  Batch a, b;
  const Moved transposes("layout.transposes");
  ASSERT_TRUE(planes.next(a) && pixels.next(b));
  EXPECT_EQ(transposes, 0);
  EXPECT_TRUE(a.x.is_contiguous() && b.x.is_contiguous(kNHWC) && !b.x.is_contiguous());
  EXPECT_TRUE(std::ranges::equal(a.x.data<float>(), contiguous(b.x).data<float>()));
  EXPECT_TRUE(slice(b, 2, 4).x.is_contiguous(kNHWC));
}

TEST(Loader, ResumesAtAnyBatch) {
  Loader alone = make({.sampler = {.batch_size = 8}});
  const auto whole = epoch_of(alone, 2);
  for (const int64_t workers : {0, 3})
    for (int64_t first = 0; first <= alone.batches(); ++first) {
      Loader loader = make({.sampler = {.batch_size = 8}, .workers = {.num_workers = workers}});
      const auto rest = epoch_of(loader, 2, first);
      EXPECT_TRUE(std::ranges::equal(
          rest, std::span(whole).subspan(std::min<size_t>(8 * first, whole.size()))));
    }
  EXPECT_THAT(complaint(Exit::usage, [&] { alone.start(0, 14); }),
              HasSubstr("batch 14 of an epoch that has 13"));
}

TEST(Loader, FillsTheSameBuffersAgainOnceTheTrainerLetsGo) {
  for (const int64_t workers : {0, 2}) {
    Loader loader = make(
        {.sampler = {.batch_size = 4},
         .workers = {.num_workers = workers, .prefetch_factor = 2, .persistent_workers = true}});
    std::map<const std::byte*, uint32_t> buffers;  // version of each when last seen
    for (int64_t epoch = 0; epoch < 5; ++epoch) {
      loader.start(epoch);
      for (Batch batch; loader.next(batch);) {
        EXPECT_GT(batch.x.storage()->version, buffers[batch.x.bytes()]);
        buffers[batch.x.bytes()] = batch.x.storage()->version;
      }
    }
    // Per worker: two in the queue, one that it fills, one at the trainer.
    EXPECT_LE(buffers.size(), workers ? workers * 4u : 1u);
  }
}

TEST(Loader, LeavesABufferAloneWhileAnyoneHoldsAViewOfIt) {
  Loader loader =
      make({.sampler = {.batch_size = 4}, .workers = {.num_workers = 1, .prefetch_factor = 1}});
  loader.start(0);
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  const Batch kept = slice(batch, 1, 3);
  const int64_t index = index_of(kept, 0);
  const uint32_t version = kept.x.storage()->version;
  for (int64_t epoch = 1; epoch < 4; ++epoch) epoch_of(loader, epoch);
  EXPECT_EQ(index_of(kept, 0), index);
  EXPECT_EQ(kept.x.storage()->version, version);
}

TEST(Loader, QueuesExactlyTheBatchesThatItMay) {
  for (LoaderOptions options : grid()) {
    if (options.workers.num_workers == 0) continue;
    const Moved most("data.queue_max");
    Loader loader = make(options, 400);
    const int64_t may = options.workers.num_workers * options.workers.prefetch_factor;
    loader.start(0);
    ASSERT_TRUE(eventually([&] { return most == may; }));
    EXPECT_EQ(epoch_of(loader, 0).size(), 400u);
    epoch_of(loader, 1);
    EXPECT_EQ(most, may);
  }
}

TEST(Loader, StartsItsWorkersOnceIfTheyPersistAndForEachEpochIfNot) {
  for (const bool persistent : {false, true}) {
    const Moved starts("data.worker_starts"), reuses("data.worker_reuses"),
        batches("data.worker_batches");
    Loader loader = make({.sampler = {.batch_size = 8},
                          .workers = {.num_workers = 3, .persistent_workers = persistent}});
    for (int64_t epoch = 0; epoch < 4; ++epoch) epoch_of(loader, epoch);
    EXPECT_EQ(starts, persistent ? 3 : 12);
    EXPECT_EQ(reuses, persistent ? 9 : 0);
    EXPECT_EQ(batches, 4 * 13);
  }
}

TEST(Loader, PopsRingsWithoutAnyLockAndCountsNothingOfWorkersWithoutThem) {
  for (const int64_t workers : {0, 4})
    for (const QueueKind queue : {QueueKind::locked, QueueKind::rings}) {
      const Moved starts("data.worker_starts"), batches("data.worker_batches"),
          most("data.queue_max"), pops("data.ring_pops"), contended("lock.contended");
      Loader loader =
          make({.sampler = {.batch_size = 8},
                .workers = {.num_workers = workers, .prefetch_factor = 2, .queue = queue}});
      epoch_of(loader, 0);
      EXPECT_EQ(pops, workers && queue == QueueKind::rings ? 13 : 0);
      EXPECT_TRUE(queue == QueueKind::locked || contended == 0) << contended;
      EXPECT_TRUE(workers || starts + batches + most == 0);
    }
}

TEST(Loader, RethrowsAWorkersErrorWithIndexAndPathWhenItsBatchIsDue) {
  for (const LoaderOptions& base : grid()) {
    LoaderOptions options = base;
    options.sampler.shuffle = false;
    const auto numbers = std::make_shared<Numbers>(103);
    numbers->on_read = [](int64_t index) {
      if (index == 42) fail(Exit::data, "the picture is torn");
    };
    Loader loader(numbers, {}, options, 5);
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      loader.start(epoch);
      Batch batch;
      for (int64_t b = 0; b < 42 / 8; ++b) ASSERT_TRUE(loader.next(batch));
      EXPECT_EQ(complaint(Exit::data, [&] { loader.next(batch); }),
                "sample 42 (numbers/42.png): the picture is torn; data.on_damaged=skip leaves it "
                "out");
      EXPECT_THAT(complaint(Exit::usage, [&] { loader.next(batch); }), HasSubstr("start()"));
    }
  }
}

TEST(Loader, GivesForeignErrorsTheirExitCode) {
  const auto numbers = std::make_shared<Numbers>(10);
  Loader loader(numbers, {}, {.workers = {.num_workers = 1}}, 5);
  numbers->on_read = [](int64_t) { throw std::bad_alloc(); };
  EXPECT_THAT(complaint(Exit::memory, [&] { epoch_of(loader, 0); }), HasSubstr("numbers/"));
  numbers->on_read = [](int64_t) { throw std::runtime_error("odd"); };
  EXPECT_THAT(complaint(Exit::data, [&] { epoch_of(loader, 0); }), HasSubstr(".png): odd"));
}

// The stuck thread owns what it touches, so it may outlive the loader.
TEST(Loader, NamesTheStuckWorkerAndItsSampleAndGoesOnWithoutIt) {
  for (const QueueKind queue : {QueueKind::locked, QueueKind::rings}) {
    const auto numbers = std::make_shared<Numbers>(40);
    std::counting_semaphore<> unstuck(0);
    numbers->on_read = [&](int64_t index) {
      if (index == 13) unstuck.acquire();
    };
    {
      Loader loader(numbers, {},
                    {.sampler = {.batch_size = 4, .shuffle = false},
                     .workers = {.num_workers = 2, .queue = queue, .timeout_s = 2}},
                    5);
      loader.start(0);
      Batch batch;
      for (int b = 0; b < 3; ++b) ASSERT_TRUE(loader.next(batch));
      EXPECT_THAT(complaint(Exit::data, [&] { loader.next(batch); }),
                  AllOf(HasSubstr("worker 1 is at sample 13 (numbers/13.png)"),
                        HasSubstr("no batch for 2 s"), HasSubstr("data.timeout_s")));
    }
    unstuck.release();
    ASSERT_TRUE(eventually([&] { return numbers.use_count() == 1; }));
  }
}

TEST(Loader, EndsWithoutABatchThatTakesLong) {
  const auto begin = std::chrono::steady_clock::now();
  {
    Loader loader = make({.sampler = {.batch_size = 8},
                          .batch = {.sim_latency_us = 60'000'000},
                          .workers = {.num_workers = 1}});
    loader.start(1, 0);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(Loader, CanBeLeftAtAnyPoint) {
  const Philox random({.seed = 11});
  uint64_t drawn = 0;
  const auto below = [&](uint64_t n) { return int64_t(random.below(n, drawn++)); };
  const auto numbers = std::make_shared<Numbers>(60);
  for (int round = 0; round < 1000; ++round) {
    Loader loader(numbers, {},
                  {.sampler = {.batch_size = 1 + below(9)},
                   .workers = {.num_workers = below(4),
                               .prefetch_factor = below(4),
                               .persistent_workers = below(2) == 1,
                               .queue = QueueKind(below(2))}},
                  5);
    for (int64_t epoch = below(4); epoch > 0; --epoch) {
      const int64_t first = below(loader.batches() + 1);
      loader.start(epoch, first);
      Batch batch;
      for (int64_t b = below(loader.batches() - first + 2); b > 0; --b) loader.next(batch);
    }
  }
  EXPECT_EQ(numbers.use_count(), 1);
}

// One worker takes 6 ms for a batch and the caller 2 ms: three hide the loading. A busy machine
// stretches the one or the other, so one of three attempts has to find about that number.
TEST(Loader, TakesAsManyWorkersAsHideTheLoading) {
  Loader alone = make({.sampler = {.batch_size = 2}}, 200);
  const LoaderOptions adapting = {.sampler = {.batch_size = 2},
                                  .batch = {.sim_latency_us = 6000},
                                  .workers = {.num_workers = kAutoWorkers}};
  bool found = false;
  for (int attempt = 0; attempt < 3 && !found; ++attempt) {
    Loader loader = make(adapting, 200);
    loader.start(0);
    std::vector<int64_t> seen;
    std::string news;
    for (Batch batch; loader.next(batch);) {
      const bool saves = seen.size() % 32 == 30;  // in every 16th call
      std::this_thread::sleep_for(std::chrono::milliseconds(saves ? 100 : 2));
      for (int64_t i = 0; i < batch.size(); ++i) seen.push_back(index_of(batch, i));
      news += loader.take_news();
    }
    EXPECT_EQ(seen, epoch_of(alone, 0));
    EXPECT_EQ(epoch_of(loader, 1), epoch_of(alone, 1));
    found = loader.workers() >= 2 && loader.workers() <= 4 &&
            news.find(cat("workers: ", loader.workers(), ", because one takes ")) != news.npos;
  }
  EXPECT_TRUE(found);
}
