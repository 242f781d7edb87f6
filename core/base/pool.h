// Small blocks for what a step makes and drops by the dozen: nodes, handles, lists of gradients.
// A block goes back to the free list of the thread that frees it. Sanitizer builds use malloc.
#pragma once
#include <cstddef>
#include <new>

namespace bellows {

void* pool_allocate(size_t bytes);
void pool_release(void* block, size_t bytes) noexcept;

template <class T> struct PoolAllocator {
  using value_type = T;
  PoolAllocator() = default;
  template <class U> PoolAllocator(const PoolAllocator<U>&) {}
  T* allocate(size_t n) { return static_cast<T*>(pool_allocate(n * sizeof(T))); }
  void deallocate(T* block, size_t n) noexcept { pool_release(block, n * sizeof(T)); }
  bool operator==(const PoolAllocator&) const { return true; }
};

}  // namespace bellows
