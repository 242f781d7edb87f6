// Rates at which bytes move: the ceilings that data, copies and kernels are held against.
#pragma once
#include <filesystem>
#include <string>
#include <vector>
#include "core/device/device.h"

namespace bellows {

struct CopyRate {
  std::string what;  // "RAM copy"
  double bytes_per_s = 0;
  std::string counted;  // "read + written"
};

// Arrays beyond any cache, on all threads of the pool.
std::vector<CopyRate> memory_rates();

// A file of up to 256 MiB in that folder, written and synced, then read past the page cache. It has
// no name, so nothing is left behind. Throws Error (exit 8) where it cannot be written.
std::vector<CopyRate> disk_rates(const std::filesystem::path& folder);

// Copies of that many bytes between the host and a GPU, pinned and pageable, and on the GPU; none
// where there is no GPU.
std::vector<CopyRate> device_rates(int64_t bytes);

}  // namespace bellows
