#include "data/packed/page_cache.h"

namespace bellows {

// Returns the page's slot and moves it to the front. Evicts slots from the end to make room for a
// new one.
PageCache::SlotPtr PageCache::use(int64_t number, int64_t size) {
  const std::lock_guard lock(mutex_);
  if (const auto found = places_.find(number); found != places_.end()) {
    used_.splice(used_.begin(), used_, found->second);
    return used_.front();
  }
  held_ += size;
  while (held_ > bytes_ && !used_.empty()) {
    held_ -= used_.back()->size;
    places_.erase(used_.back()->number);
    used_.pop_back();
  }
  used_.push_front(std::make_shared<Slot>(number, size));
  places_[number] = used_.begin();
  return used_.front();
}

std::shared_ptr<const PageCache::Page> PageCache::get(int64_t number, int64_t size,
                                                      const Read& read) {
  const SlotPtr slot = use(number, size);
  const std::lock_guard lock(slot->mutex);
  if (!slot->filled) {
    slot->page.resize(size);
    read(slot->page);
    slot->filled = true;
  }
  return {slot, &slot->page};
}

}  // namespace bellows
