// Stand-in for a vendor's library: the plain CPU kernel as one operation of the stream.
#pragma once
#include <functional>
#include <map>
#include <string>
#include "core/tensor/tensor.h"
#include "ops/vendor/planned_call.h"

namespace cuda_host {

// Non-owning view of a device tensor, for an operation that runs later.
struct View {
  const void* address = nullptr;  // null: load() returns an undefined tensor
  bellows::Shape shape = {};
  bellows::Strides strides = {};
  bellows::DType dtype = bellows::DType::f32;

  // Returns a copy on the host, f64 for f64 and f32 for all other dtypes.
  bellows::Tensor load() const;
  void store(const bellows::Tensor& t) const;  // rounds to the view's dtype
};

// Plans that the stand-ins of cuDNN and cuBLASLt propose, in this order.
inline const std::vector<std::string> kPlans = {"first", "second", "third"};

// Faults of a plan: how often each happens, -1: always.
struct PlanFaults {
  int build = 0, run = 0, wrong = 0;
  int slow = 0;     // operations that each run adds to the stream
  int slow_ms = 0;  // time that each run takes on the host
};
// Faults and counts of the stand-in libraries, by the plan's name. Runs are also counted by call.
struct VendorLibrary {
  std::map<std::string, PlanFaults> faults;
  std::map<std::string, int> built, runs;
  int alive = 0;  // plans that have been built and not freed
};
inline VendorLibrary vendor_library;

// Returns the plans as proposals. `work(bindings)` returns what a run computes later, on the
// stream, given whether its values must be wrong.
using Work = std::function<std::function<void(bool wrong)>(bellows::Bindings)>;
bellows::Proposals propose_plans(const char* call, bool tf32, const Work& work);

}  // namespace cuda_host
