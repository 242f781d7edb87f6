// data.batch_size: auto. A larger batch keeps a device busier, up to a size that depends on model
// and device; beyond that size, it only takes memory.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace bellows {

struct Config;
struct Loaded;

struct BatchTrial {
  double samples_per_s = 0;
  int64_t peak_bytes = 0;  // of all tensors
};

struct BatchChoice {
  int64_t batch = 0;
  std::string reason;  // the sizes tried, and why the next one is not taken
};

// Doubles the batch size from 16 while that makes the trial 5 % faster per sample, twice its peak
// fits into `bytes`, and there are as many samples. A trial that throws Error with Exit::memory
// ends the search.
BatchChoice grow_batch(int64_t samples, int64_t bytes,
                       const std::function<BatchTrial(int64_t batch)>& try_out);

// Replaces data.batch_size: auto, by the number that the saved run has found, or by a new one. A
// trial is forward and backward of the model on zeros, without an update; the tensors may take 80 %
// of the memory that is free. Searches for no kernels. Throws Error (exit 2) for several ranks.
void settle_batch_size(Config& config, const std::optional<Loaded>& saved,
                       std::vector<std::string>& notes);

}  // namespace bellows
