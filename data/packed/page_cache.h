// PageCache: pages of files in memory, up to a number of bytes. Evicts least recently used pages.
#pragma once
#include <functional>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>
#include "core/base/mutex.h"

namespace bellows {

class PageCache {
 public:
  using Page = std::vector<uint8_t>;
  using Read = std::function<void(Page& page)>;  // fills the page; may throw

  explicit PageCache(int64_t bytes) : bytes_(bytes) {}
  // Returns the page of that number and size. Calls `read` if it is not cached: once, even if
  // several threads request it, and passes on its exceptions. The caller shares ownership, so the
  // page outlives its eviction. Thread-safe.
  std::shared_ptr<const Page> get(int64_t number, int64_t size, const Read& read);

 private:
  struct Slot {
    Slot(int64_t number, int64_t size) : number(number), size(size) {}
    const int64_t number, size;
    Mutex mutex{"page"};
    bool filled = false;
    Page page;
  };
  using SlotPtr = std::shared_ptr<Slot>;

  SlotPtr use(int64_t number, int64_t size);

  const int64_t bytes_;
  Mutex mutex_{"page_cache"};
  int64_t held_ = 0;         // bytes
  std::list<SlotPtr> used_;  // most recently used first
  std::unordered_map<int64_t, std::list<SlotPtr>::iterator> places_;
};

}  // namespace bellows
