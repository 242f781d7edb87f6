// Large host memory in pages of 2 MiB: one entry of the TLB for 512 of the usual ones, and as many
// fewer page faults.
#pragma once
#include <cstddef>

namespace bellows {

inline constexpr size_t kHugePage = size_t{2} << 20;

// Aligned to a huge page; every whole one in it is asked for (alloc.huge_bytes counts them), which
// the system may decline. Null: out of memory. std::free() gives it back.
void* allocate_huge(size_t bytes);

}  // namespace bellows
