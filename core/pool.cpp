#include "core/pool.h"
#include <array>
#include <utility>

namespace bellows {

#if defined(BELLOWS_SANITIZED)
void* pool_allocate(size_t bytes) { return ::operator new(bytes); }
void pool_release(void* block, size_t) noexcept { ::operator delete(block); }
#else

namespace {

constexpr size_t kStep = 64, kClasses = 64;  // blocks of up to 4 KiB

struct FreeLists {
  struct Block {
    Block* next;
  };
  std::array<Block*, kClasses> heads{};
  ~FreeLists() {
    for (Block*& head : heads)
      while (head) ::operator delete(std::exchange(head, head->next));
    closed = true;
  }
  static thread_local bool closed;  // blocks released after this thread's lists are gone
};
thread_local bool FreeLists::closed = false;
thread_local FreeLists lists;

}  // namespace

void* pool_allocate(size_t bytes) {
  const size_t size_class = (bytes - 1) / kStep;
  if (bytes == 0 || size_class >= kClasses || FreeLists::closed) return ::operator new(bytes);
  FreeLists::Block*& head = lists.heads[size_class];
  if (!head) return ::operator new((size_class + 1) * kStep);
  return std::exchange(head, head->next);
}

void pool_release(void* block, size_t bytes) noexcept {
  const size_t size_class = (bytes - 1) / kStep;
  if (bytes == 0 || size_class >= kClasses || FreeLists::closed) return ::operator delete(block);
  FreeLists::Block*& head = lists.heads[size_class];
  head = new (block) FreeLists::Block{head};
}

#endif

}  // namespace bellows
