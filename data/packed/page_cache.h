// Pages of files in memory, up to a number of bytes: the one that was used longest ago goes first.
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
  using Read = std::function<void(Page& page)>;  // fills it; what it throws is passed on

  explicit PageCache(int64_t bytes) : bytes_(bytes) {}
  // The page of that number and size, read if it is not there: once, also where several threads
  // ask for it. It outlives its place in here while somebody holds it. Thread-safe.
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
  std::list<SlotPtr> used_;  // the last one first
  std::unordered_map<int64_t, std::list<SlotPtr>::iterator> places_;
};

}  // namespace bellows
