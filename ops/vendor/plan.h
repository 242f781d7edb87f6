// Bindings: the arguments of a library's call, for all wrappers of libraries. VendorPlan: how a
// library will run a call, for the wrappers of cuDNN and cuBLASLt.
#pragma once
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>
#include "core/tensor/tensor.h"

namespace bellows {

// A tensor of a plan with its address in one run. A null address, or an undefined tensor, leaves
// the tensor unbound.
struct Binding {
  Binding(int64_t tensor, const void* address) : tensor(tensor), address(address) {}
  Binding(int64_t tensor, const Tensor& t) : Binding(tensor, t.defined() ? t.bytes() : nullptr) {}
  int64_t tensor;  // an Id of a cuDNN graph, an operand of cuBLASLt, or DNNL_ARG_*
  const void* address;
};
using Bindings = std::initializer_list<Binding>;

// A built way of a library to solve a problem: cuDNN's engine with its knobs, cuBLASLt's algorithm.
class VendorPlan {
 public:
  virtual ~VendorPlan() = default;
  virtual int64_t workspace_bytes() const = 0;
  // Runs on the current stream with a workspace from the allocator. Throws PlanFailure if the
  // library refuses. Counted in kernel.vendor_calls.
  virtual void run(Bindings bindings) const = 0;
};
struct PlanFailure : Error {
  explicit PlanFailure(const std::string& why) : Error(why, Exit::internal) {}
};

// A plan that a library proposes. build() returns null if the library cannot build it after all.
struct Proposal {
  std::string name;  // the same for the same problem and version of the library
  std::function<std::shared_ptr<const VendorPlan>()> build;
};
using Proposals = std::vector<Proposal>;

// quick: in the order of the library's cheap heuristic. thorough: all that a search may try.
enum class Search { quick, thorough };
using Propose = std::function<Proposals(Search)>;

}  // namespace bellows
