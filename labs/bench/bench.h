// The benchmarks of `trainer bench NAME`. Each one is a file that registers itself, as verbs do:
//
//   static int run_copies(CommandLine& line, const Arguments& args) {
//     std::string device = "auto";
//     add_device_option(line, device);
//     if (!line.read(args)) return 0;  // --help
//     const Device on = start_bench(device);
//     ...
//   }
//   static const AddVerb copies_bench({"h2d", "copies to a GPU and back", "trainer bench h2d",
//                                      run_copies}, benches());
#pragma once
#include "core/device/device.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

void add_device_option(CommandLine& line, std::string& device);  // --device auto|cpu|cuda

// Returns the device to measure on; "auto" is a GPU if there is one. Also limits threads to the
// allowed cores and turns on the caching allocator. Throws Error (exit 2) if "cuda" cannot be used.
Device start_bench(const std::string& device);

// Text with three significant digits: "1.34 ms"; "294 GFLOP/s".
std::string time_text(double seconds);
std::string rate_text(double per_second, const char* unit);

// For example "cpu: Intel(R) Xeon(R) Processor, 2 threads".
std::string device_text(Device device);

}  // namespace bellows
