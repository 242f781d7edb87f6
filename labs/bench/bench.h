// The benchmarks of `trainer bench NAME`. Each one is a file that registers itself in benches(), as
// verbs do in verbs() (trainer/verbs/verbs.h). It calls add_device_option() before line.read(), and
// start_bench() after it.
#pragma once
#include "core/device/device.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

struct AddBench : AddVerb {
  explicit AddBench(const Verb& bench, const char* file = __builtin_FILE())
      : AddVerb(bench, benches(), file) {}
};

void add_device_option(CommandLine& line, std::string& device);  // --device auto|cpu|cuda

// Returns the device to measure on; "auto" is a GPU if there is one. Also limits threads to the
// allowed cores and turns on the caching allocator. Throws Error (exit 2) if "cuda" cannot be used.
Device start_bench(const std::string& device);

// Returns text with three significant digits: "1.34 ms"; "294 GFLOP/s".
std::string time_text(double seconds);
std::string rate_text(double per_second, const char* unit);
std::string size_text(int64_t bytes);  // "64 KiB", "16 MiB"

// For example "cpu: Intel(R) Xeon(R) Processor, 2 threads".
std::string device_text(Device device);

// Upper limits for kernels that only move data, in bytes/s. triad_rate: y = a + s b on arrays
// larger than any cache, on all pool threads. device_copy_rate: a copy of `bytes` bytes within a
// GPU, read and written.
double triad_rate();
double device_copy_rate(int64_t bytes);

}  // namespace bellows
