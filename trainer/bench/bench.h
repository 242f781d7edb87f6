// The benchmarks of `trainer bench NAME`. Each is a file that registers itself, as verbs do:
//
//   static int run(const Arguments& args) {
//     CommandLine line = bench_line("h2d");
//     std::string device = "auto";
//     add_device_option(line, device);
//     if (!line.read(args)) return 0;  // --help
//     const Device on = start_bench(device);
//     ...
//   }
//   static const AddBench bench({"h2d", "copies to a GPU and back", "trainer bench h2d", run});
#pragma once
#include "core/device/device.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

struct AddBench {
  explicit AddBench(const Verb& bench, const char* file = __builtin_FILE()) {
    registered_files().insert(file);
    benches()[bench.name] = bench;
  }
};

inline CommandLine bench_line(const std::string& name) {
  return CommandLine("trainer bench", benches().at(name));
}

void add_device_option(CommandLine& line, std::string& device);  // --device auto|cpu|cuda

// The device to measure on: auto takes a GPU if there is one. Threads are held to the allowed
// cores, tensors come from the caching allocator. Throws Error (exit 2) where there is no GPU.
Device start_bench(const std::string& device);

// "cpu: Intel(R) Xeon(R) Processor, 2 threads".
std::string device_text(Device device);

}  // namespace bellows
