#include "core/base/pool.h"
#include <pthread.h>
#include <array>
#include <cstdint>
#include <utility>

namespace bellows {

#if defined(BELLOWS_SANITIZED)
void* small_block_allocate(size_t bytes) { return ::operator new(bytes); }
void pool_release(void* block, size_t) noexcept { ::operator delete(block); }
#else

namespace {

constexpr size_t kStep = 64, kClasses = 64;  // blocks of up to 4 KiB
constexpr uint32_t kMostKept = 4096;         // kept blocks of a class: a thread may only release

struct Block {
  Block* next;
};
struct FreeLists {
  std::array<Block*, kClasses> heads{};
  std::array<uint32_t, kClasses> kept{};  // number of blocks in each list
  bool open = false, closed = false;      // closed: released blocks are freed at once
};
constinit thread_local FreeLists lists;

void close_lists(void*) {
  for (Block*& head : lists.heads)
    while (head) ::operator delete(std::exchange(head, head->next));
  lists.closed = true;
}

// A pthread key, because glibc allocates memory to register the destructor of a thread_local object
// and ends the process if it cannot. A key needs no allocation.
void open_lists() {
  static const pthread_key_t key = [] {
    pthread_key_t made = {};
    pthread_key_create(&made, close_lists);
    return made;
  }();
  pthread_setspecific(key, &lists);
  lists.open = true;
}

}  // namespace

void* small_block_allocate(size_t bytes) {
  const size_t size_class = (bytes - 1) / kStep;
  if (bytes == 0 || size_class >= kClasses || lists.closed) return ::operator new(bytes);
  Block*& head = lists.heads[size_class];
  if (!head) return ::operator new((size_class + 1) * kStep);
  --lists.kept[size_class];
  return std::exchange(head, head->next);
}

void pool_release(void* block, size_t bytes) noexcept {
  const size_t size_class = (bytes - 1) / kStep;
  if (bytes == 0 || size_class >= kClasses || lists.closed) return ::operator delete(block);
  if (lists.kept[size_class] == kMostKept) return ::operator delete(block);
  ++lists.kept[size_class];
  if (!lists.open) [[unlikely]]
    open_lists();
  Block*& head = lists.heads[size_class];
  head = new (block) Block{head};
}

#endif

}  // namespace bellows
