// Large host memory in pages of 2 MiB: one TLB entry and one page fault in place of 512.
#pragma once
#include <cstddef>

namespace bellows {

inline constexpr size_t kHugePage = size_t{2} << 20;

// Returns memory aligned to a huge page, or null if out of memory. Requests a huge page for each
// whole one in it, which the system may decline; alloc.huge_bytes counts the bytes. Release it with
// std::free().
void* allocate_huge(size_t bytes);

}  // namespace bellows
