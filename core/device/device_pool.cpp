#include "core/device/device_pool.h"
#include <algorithm>
#include <deque>
#include <utility>
#include "core/base/check.h"
#include "core/base/module_path.h"
#include "core/base/trace.h"
#include "core/device/blocks.h"
#include "core/device/graph.h"
#include "core/device/sync_guard.h"

namespace bellows {

void TensorPool::configure(const AllocatorOptions& options) {
  {
    const std::lock_guard lock(mutex_);
    options_ = options;
  }
  if (!options.caching) empty();
}

AllocatorStats TensorPool::stats() {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void TensorPool::reset_peak() {
  const std::lock_guard lock(mutex_);
  stats_.peak_allocated = stats_.allocated;
}

void TensorPool::count_allocated(size_t bytes) {
  stats_.allocated += static_cast<int64_t>(bytes);
  stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
}

int64_t& pool_of_thread() {
  static constinit thread_local int64_t pool = 0;
  return pool;
}

// ---- messages

// Formats bytes in MiB, with one decimal unless it is 0.
static std::string mib(int64_t bytes) {
  const int64_t tenths = (10 * (bytes >> 10) + 512) >> 10;
  return cat(tenths / 10, tenths % 10 ? cat(".", tenths % 10) : "", " MiB");
}

static std::string maker_of(const Block& block) {
  const std::string op = block.op ? cat(" of ", block.op) : "";
  return cat(op, block.site->path.empty() ? "" : " in " + block.site->path);
}

// Returns "3 x 512 MiB of conv2d in layer1.0, 256 MiB": equal blocks together, the largest first.
static std::string largest(const std::vector<const Block*>& held) {
  constexpr int kLines = 5;
  std::string text;
  size_t at = 0;
  for (int line = 0; line < kLines && at < held.size(); ++line) {
    const Block& first = *held[at];
    const size_t begin = at;
    while (at < held.size() && held[at]->size == first.size &&
           maker_of(*held[at]) == maker_of(first))
      ++at;
    text += cat(line ? ", " : "", at - begin > 1 ? cat(at - begin, " x ") : "",
                mib(static_cast<int64_t>(first.size)), maker_of(first));
  }
  return text.empty() ? "none" : text;
}

// ---- the pool

namespace {

// Note [When a block is free]: a tensor may be released while queued work still uses it. On the
// block's own stream this is safe: work on the reused block is queued after it. For each stream
// that record_use() named, release() records an event, and the block is free when all events are
// ready. Allocations query the events, but wait for them only before memory would run out.
class DevicePool final : public TensorPool {
 public:
  explicit DevicePool(Device device) : device_(device), api_(api_of(device)) {}

  void* allocate(size_t bytes) override {
    const Stream stream = current_stream(device_);
    const std::lock_guard lock(mutex_);
    collect();
    const size_t size = Blocks::rounded(bytes);
    const BlockKey home{pool_of_thread(), stream.native, size <= Blocks::kSmall};
    Block* block = options_.caching ? blocks_.take(home, size) : nullptr;
    if (block) {
      ++stats_.cache_hits;
      trace::count<"alloc.cache_hits">();
    } else {
      block = &grow(home, size);
    }
    block->site = current_site();
    block->op = running_kernel();
    count_allocated(block->size);
    return block->at;
  }
  // After a device error, events cannot be recorded or queried; without host memory, they cannot be
  // noted. The block then stays in use, because the process is about to end.
  void release(void* memory, size_t) noexcept override {
    try {
      const std::lock_guard lock(mutex_);
      Block& block = *blocks_.find(memory);
      stats_.allocated -= static_cast<int64_t>(block.size);
      if (block.users.empty()) return set_free(block);
      block.state = Block::waiting;
      if (!outside_captures([&] { mark_uses(block); })) captured_.push_back(&block);
    } catch (const Error&) {
    } catch (const std::bad_alloc&) {
    }
  }

  void record_use(const void* memory, Stream stream) override {
    const std::lock_guard lock(mutex_);
    Block* const block = blocks_.find(memory);
    if (!block || block->segment->home.stream == stream.native) return;
    if (!std::ranges::count(block->users, stream)) block->users.push_back(stream);
  }

  void empty() override {
    const std::lock_guard lock(mutex_);
    collect();
    free_idle();
  }

  AllocatorStats stats() override {
    const std::lock_guard lock(mutex_);
    blocks_.fill_in(stats_);
    return stats_;
  }

  void join_common(int64_t pool) override {
    const std::lock_guard lock(mutex_);
    blocks_.join_common(pool);
  }

 private:
  // A stream's use of a released block, which ends when the event is ready.
  struct Use {
    void* event;
    Block* block;
  };

  Block& grow(const BlockKey& home, size_t size) {
    const size_t wanted = options_.caching ? Blocks::segment_size(size) : size;
    size_t got = wanted;
    void* memory = from_system(got);
    if (!memory && !capturing()) {
      // Releases the cache, to make room for a segment of this block alone.
      wait_for_uses();
      if (Block* const block = options_.caching ? blocks_.take(home, size) : nullptr) return *block;
      free_idle();
      memory = from_system(got);
      if (!memory && wanted > size) memory = from_system(got = size);
    }
    if (!memory) refuse(size);
    blocks_.add(memory, got, home);
    return *blocks_.take(home, size);
  }

  void* from_system(size_t bytes) {
    ++stats_.system_calls;
    trace::count<"alloc.system_calls">();
    void* const memory = api_.allocate(bytes);
    if (memory) stats_.reserved += static_cast<int64_t>(bytes);
    return memory;
  }

  void to_system(const Segment& segment) {
    stats_.reserved -= static_cast<int64_t>(segment.size);
    api_.release(segment.begin, segment.size);
  }

  void free_idle() {
    for (const Segment& segment : blocks_.take_idle()) to_system(segment);
  }

  void set_free(Block& block) {
    block.users.clear();
    const Block& whole = blocks_.give(block);
    if (options_.caching || capturing()) return;
    if (const auto idle = blocks_.take_idle(whole)) to_system(*idle);
  }

  void mark_uses(Block& block) {
    for (const Stream stream : block.users) {
      if (spare_events_.empty()) spare_events_.push_back(api_.make_event(false));
      void* const event = spare_events_.back();
      spare_events_.pop_back();
      api_.record(event, stream);
      uses_[stream.native].push_back({event, &block});
      ++block.events;
    }
  }

  // Frees the blocks whose uses have ended.
  void collect() {
    if (capturing()) return;
    const auto mark_all = [this] {
      for (Block* block : std::exchange(captured_, {})) mark_uses(*block);
    };
    if (!captured_.empty() && !outside_captures(mark_all)) return;
    for (auto& [stream, uses] : uses_) {
      while (!uses.empty() && api_.ready(uses.front().event)) {
        const Use done = uses.front();
        uses.pop_front();
        spare_events_.push_back(done.event);
        if (--done.block->events == 0) set_free(*done.block);
      }
    }
  }

  void wait_for_uses() {
    const SyncGuard expected(OnSync::ignore);
    for (const auto& [stream, uses] : uses_)
      if (!uses.empty()) synchronize({device_, stream});
    collect();
  }
  [[noreturn]] void refuse(size_t bytes) {
    blocks_.fill_in(stats_);
    const AllocatorStats& s = stats_;
    const bool in_pieces = s.free >= static_cast<int64_t>(bytes);
    fail(Exit::memory, "out of ", device_, " memory: asked for ", mib(int64_t(bytes)), " with ",
         mib(s.allocated), " held by tensors, ", mib(s.reserved), " reserved (fragmentation ",
         static_cast<int>(100 * s.fragmentation()), " %) and ", mib(int64_t(api_.available())),
         " free on the device; the largest tensors: ", largest(blocks_.largest_held()),
         "; try a smaller data.batch_size, gradient_accumulation",
         in_pieces ? ", preallocate (what is free is in pieces)" : "",
         options_.caching ? "" : ", caching_allocator", ", amp or recompute");
  }

  const Device device_;
  const DeviceApi& api_;
  Blocks blocks_;
  std::map<void*, std::deque<Use>> uses_;  // uses by stream, in the order of their events
  std::vector<Block*> captured_;  // released during a capture; their events are recorded after it
  std::vector<void*> spare_events_;
};

}  // namespace

TensorPool& device_pool() {
  static DevicePool& pool = *new DevicePool(Device::cuda);
  return pool;
}

}  // namespace bellows
