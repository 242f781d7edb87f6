// Wrapper of cuDNN 9's graph API that does not include cuDNN's headers. A convolution is described,
// cuDNN proposes engines for it, and a PlannedCall runs one of them with new addresses each time.
// Compute thread only. Other errors of cuDNN than those of a plan throw Exit::internal.
#pragma once
#include "ops/conv/conv2d.h"
#include "ops/vendor/planned_call.h"

namespace bellows::cudnn {

// True if cuDNN is installed. If not, the first call prints one line on stderr. Everything below
// except version() and loaded() requires it.
bool available();
std::string version();  // "9.19.0", or "" without cuDNN
std::string loaded();   // "cuDNN 9.19.0" or "no cuDNN"
// With `deterministic` on, a Filter admits only engines that give the same bits every time.
inline constexpr Vendor kVendor{.thread_invariant = true, .version = loaded};

// Selects engines. All selected engines sum 16-bit products in f32.
struct Filter {
  bool tf32 = false;           // allow f32 products with a 10-bit mantissa
  bool deterministic = false;  // only engines that give the same bits every time
  int64_t workspace_bytes = int64_t{1} << 30;
  bool operator==(const Filter&) const = default;
};
Filter filter();  // from the current KernelOptions

enum class Half { forward, backward_x, backward_w };

// One pass of a convolution, and the key of its plans: everything that they depend on. Images and
// weights are in one memory format and of one dtype. Computes in f32, for f64 in f64.
struct Convolution {
  Half half;
  Shape x, w;
  MemoryFormat format;
  DType dtype;
  bool bias;  // the pass adds a bias; forward only
  Conv2dOptions options;
  Filter filter;

  Shape y() const { return conv2d_shape("conv2d", x, w, options); }
  // Shapes of kFirst, kSecond and kResult.
  Shape first() const { return half == Half::forward ? x : y(); }
  Shape second() const { return half == Half::backward_w ? x : w; }
  Shape result() const { return half == Half::forward ? y() : half == Half::backward_x ? x : w; }
  bool runs_tf32() const { return dtype == DType::f32 && filter.tf32; }
  bool operator==(const Convolution&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Convolution& convolution);

// Tensors of a plan: x and w (forward), dy and w (backward_x), or dy and x (backward_w); the bias,
// of shape (1, K, 1, 1); and the result. Their addresses are multiples of 16 bytes.
enum : int64_t { kFirst = 1, kSecond, kBias, kResult };

// Returns the engines that pass the filter, in cuDNN's order, as "eng62_k2=4_k13=0". A thorough
// search takes engines of all heuristics, except those that compile at run time, which take 0.5 s
// each.
Proposals propose(const Convolution& convolution, Search search);

// cuDNN's support for a convolution on a device that need not be present.
struct Support {
  int64_t engines = 0;          // number of engines that pass the filter
  int64_t workspace_bytes = 0;  // for the engine that cuDNN ranks first
  std::string why_not = {};     // cuDNN's message if there is no engine
};
// Builds no plan and uses no device. `device_properties` is JSON as cuDNN serializes it.
Support support(const Convolution& convolution, const std::string& device_properties);

}  // namespace bellows::cudnn
