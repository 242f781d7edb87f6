// Wrapper of NVRTC, NVIDIA's run-time compiler: CUDA source to machine code, and pointwise chains
// compiled by it. The library is opened on first use and needs no GPU.
//
// Sources may include core/base/half.h, ops/base/functors.h and ops/chain/pointwise_device.cuh.
// Their text is embedded in the program, so no header files are read at run time.
#pragma once
#include <string>
#include "core/base/disk_cache.h"
#include "core/base/dtype.h"
#include "ops/chain/program.h"

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

// ---- Pointwise chains as CUDA kernels: one per chain, element type and direction, compiled on
// first use.

// Returns CUDA source of the program for tensors of `dtype`: a kernel `pointwise` that takes a
// PointwiseGrid.
std::string pointwise_source(const StepProgram& program, DType dtype);

// Returns the machine code or PTX of `source` for `target`, from the cache (counted in
// pointwise.cache_hits) or compiled and added to it (counted in pointwise.compiles).
std::string pointwise_image(const std::string& source, const std::string& target, DiskCache& cache);

}  // namespace bellows::nvrtc
