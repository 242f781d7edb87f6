// A kernel for each chain, element type and direction, compiled when it is first needed.
#pragma once
#include "core/base/disk_cache.h"
#include "core/base/dtype.h"
#include "ops/chain/program.h"

namespace bellows::nvrtc {

// CUDA source of the program for tensors of that type: a kernel `pointwise` of a PointwiseGrid.
std::string pointwise_source(const StepProgram& program, DType dtype);

// What runs it on such a target (nvrtc.h): from the cache, counted as pointwise.cache_hits, or
// compiled and kept there, counted as pointwise.compiles.
std::string pointwise_image(const StepProgram& program, DType dtype, const std::string& target,
                            DiskCache& cache);

}  // namespace bellows::nvrtc
