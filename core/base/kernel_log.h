// A log of the implementations that ran: "winograd", "brgconv:avx512_core". A plain implementation
// is not noted.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace bellows::trace {

struct KernelRun {
  std::string name;
  std::string module, kernel;  // "conv1", "conv2d"; empty outside modules and kernels
  uint64_t thread;
  int64_t at_ns;  // from now_ns()
};
inline constinit std::atomic<bool> kernels_logged{false};  // true: the log is on
// Notes an implementation that runs now. While the log is off, it costs one atomic load.
void note_kernel(const std::string& name);
std::vector<KernelRun> take_kernels();  // entries since the last call, in order

}  // namespace bellows::trace
