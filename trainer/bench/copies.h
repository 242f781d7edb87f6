// Copy rates of memory, disk and GPU: upper limits for data loading, copies and kernels.
#pragma once
#include "core/base/file.h"

namespace bellows {

struct CopyRate {
  std::string what;  // "RAM copy"
  double bytes_per_s = 0;
  std::string counted;  // bytes that the rate counts: "read + written"
};

// Rates of reading, copying and y = a + s b on arrays larger than any cache, on all pool threads.
std::vector<CopyRate> memory_rates();
double triad_rate();  // the last of them alone, in bytes/s

// Writes and syncs a file of up to 256 MiB in `folder`, then reads it bypassing the page cache. The
// file is unlinked at once, so nothing is left over. Throws Error (exit 8) on I/O errors.
std::vector<CopyRate> disk_rates(const Path& folder);

// Rates of copies of `bytes` bytes between host and GPU, pinned and pageable, and within the GPU.
// Empty if there is no GPU.
std::vector<CopyRate> device_rates(int64_t bytes);
double device_copy_rate(int64_t bytes);  // the last of them alone, in bytes/s; needs a GPU

}  // namespace bellows
