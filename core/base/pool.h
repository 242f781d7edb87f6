// Pool of small blocks (up to 4 KiB) for the many objects that a step creates and drops: graph
// nodes, handles, lists of gradients. A block goes to the free list of the thread that releases it.
// Sanitizer builds use operator new and delete.
#pragma once
#include <cstddef>

namespace bellows {

// Thread-safe. pool_release() must receive the size that was allocated. Throws std::bad_alloc.
void* small_block_allocate(size_t bytes);
void pool_release(void* block, size_t bytes) noexcept;

template <class T> struct SmallBlockAllocator {
  using value_type = T;
  SmallBlockAllocator() = default;
  template <class U> SmallBlockAllocator(const SmallBlockAllocator<U>&) {}
  T* allocate(size_t n) { return static_cast<T*>(small_block_allocate(n * sizeof(T))); }
  void deallocate(T* block, size_t n) noexcept { pool_release(block, n * sizeof(T)); }
  bool operator==(const SmallBlockAllocator&) const { return true; }
};

}  // namespace bellows
