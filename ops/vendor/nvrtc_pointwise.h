// Pointwise chains as CUDA kernels: one per chain, element type and direction, compiled on first
// use. Requires nvrtc::available().
#pragma once
#include "core/base/disk_cache.h"
#include "core/base/dtype.h"
#include "ops/chain/program.h"

namespace bellows::nvrtc {

// Returns CUDA source of the program for tensors of `dtype`: a kernel `pointwise` that takes a
// PointwiseGrid.
std::string pointwise_source(const StepProgram& program, DType dtype);

// Returns the machine code or PTX of `source` for `target` (nvrtc.h), from the cache (counted in
// pointwise.cache_hits) or compiled and added to it (counted in pointwise.compiles).
std::string pointwise_image(const std::string& source, const std::string& target, DiskCache& cache);

}  // namespace bellows::nvrtc
