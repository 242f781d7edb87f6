// PlannedCall: a call of a CUDA library that survives a plan that fails. Plans are tried in the
// order in which the library proposes them; a plan that fails when it runs, or that a search finds
// wrong, is dropped with one notice. When none is left, the caller runs its plain kernel.
// Compute thread only. Bindings serve the wrappers of all libraries.
//
//   const auto call = planned_call(slot, library, problem);
//   if (!call->run({{kX, x}, {kY, y}}, make_trial)) return kernels::op.plain(...);
#pragma once
#include <set>
#include "core/device/graph.h"
#include "core/device/kernel_options.h"
#include "core/tensor/autotune.h"
#include "core/tensor/slot.h"
#include "core/tensor/tensor.h"

namespace bellows {

// A tensor of a plan with its address in one run. A null address, or an undefined tensor, leaves
// the tensor unbound.
struct Binding {
  Binding(int64_t tensor, const void* address) : tensor(tensor), address(address) {}
  Binding(int64_t tensor, const Tensor& t) : Binding(tensor, t.defined() ? t.bytes() : nullptr) {}
  int64_t tensor;  // of cuDNN (kFirst, ...), of cuBLASLt (kY, ...), or DNNL_ARG_*
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

class PlannedCall {
 public:
  // A search calls `run` with a plan, any number of times, and compares the results pairwise with
  // those of `plain`, the plain kernel on the same inputs.
  using Tensors = std::vector<Tensor>;
  struct Trial {
    std::function<Tensors(const VendorPlan&)> run;
    std::function<Tensors()> plain;
  };

  PlannedCall(std::string problem, Propose propose)
      : problem_(std::move(problem)), propose_(std::move(propose)) {}

  // Returns false, having done nothing, if no plan can run: the caller then runs its plain kernel,
  // and the log has a line about it, once per layer. Under Autotune::benchmark, searches for the
  // fastest plan, and drops it if its values differ from the plain kernel's. If those are not
  // finite, compares again in every 32nd call: more often would slow down a kernel's own search.
  // make_trial() returns the Trial.
  //
  // In a capture nothing may fail, so it uses only a plan that has run before. The graph shares
  // the ownership of the plan.
  template <class MakeTrial> bool run(Bindings bindings, const MakeTrial& make_trial) {
    const bool due = tuning_.due();
    if (due || (is_unproven() && unproven_calls_++ % 32 == 0)) settle(due, make_trial());
    return run(bindings);
  }
  // The same without a search.
  bool run(Bindings bindings);

 private:
  struct Candidate {
    std::string name = {};
    std::shared_ptr<const VendorPlan> plan = {};
    bool has_run = false;   // outside captures, without an error
    bool compared = false;  // in this call, with the plain kernel
    bool is_right = false;  // the values were finite and equal
  };
  bool is_unproven();
  void settle(bool due, const Trial& trial);
  void search(const Trial& trial, Tensors& plain);
  void try_out(Candidate& candidate, const Trial& trial, Tensors& plain);
  bool has_plan();  // builds the next one if there is none
  void drop(const std::string& name, const std::string& why);

  const std::string problem_;
  const Propose propose_;
  Candidate now_;        // in use; without a plan: none is built
  Proposals rest_ = {};  // in order, after now_
  bool proposed_ = false;
  int64_t unproven_calls_ = 0;
  std::set<std::string> dropped_ = {};
  Tuning tuning_;
};

// Returns the call for a problem, from the process's map. `problem` states all that plans depend
// on, the version of the library included.
std::shared_ptr<PlannedCall> planned_call(const std::string& problem, const Propose& propose);
// Returns the call that a layer keeps in its slot, with `problem` as the key. Its type has << and
// propose(problem, search).
template <class Problem>
std::shared_ptr<PlannedCall> planned_call(Slot& slot, const std::string& library,
                                          const Problem& problem) {
  return slot.get<std::shared_ptr<PlannedCall>>(problem, [&] {
    return planned_call(cat(library, " ", problem),
                        [problem](Search search) { return propose(problem, search); });
  });
}

// Logs, once per layer and kernel, that the running kernel falls back to the plain one. Counts
// each fallback in kernel.fallbacks, on which benchmarks fail.
void note_fallback(const std::string& why);

}  // namespace bellows
