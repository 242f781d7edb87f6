// Wrapper of NVRTC, NVIDIA's run-time compiler: CUDA source to machine code. The library is opened
// on first use and needs no GPU.
//
// Sources may include core/base/half.h, ops/base/functors.h and ops/chain/pointwise_device.cuh.
// Their text is embedded in the program, so no header files are read at run time.
#pragma once
#include <string>

namespace bellows::nvrtc {

// True if NVRTC is installed. If not, the first call prints one line on stderr. All functions below
// require it.
bool available();

// Returns the compilation target for a compute capability (90 for 9.0): "sm_90" (machine code) if
// the compiler knows it, else PTX of the latest earlier one it knows, "compute_80", else "".
std::string target_for(int capability);

// Compiles to machine code (sm_*) or zero-terminated PTX (compute_*). Throws Exit::internal with
// the compiler's log if the source does not compile.
std::string compile(const std::string& source, const std::string& target);

// Returns everything besides its arguments that compile()'s result depends on: the compiler's
// version and options, and the text of the headers. For cache keys.
std::string fingerprint();

}  // namespace bellows::nvrtc
