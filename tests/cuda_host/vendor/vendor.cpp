#include "tests/cuda_host/vendor/vendor.h"
#include <chrono>
#include <thread>
#include "core/device/kernel_options.h"
#include "core/device/parallel.h"
#include "core/tensor/copy.h"
#include "ops/vendor/cuda_call.h"
#include "tests/cuda_host/runtime.h"

namespace cuda_host {

using namespace bellows;

// Returns the view as a tensor of the CPU, for an operation: its memory is accessible there.
static Tensor in_place(const View& v) {
  constexpr size_t kUnknown = SIZE_MAX;
  const Ref<Storage> memory(
      new Storage(const_cast<void*>(v.address), kUnknown, Device::cpu, nullptr));
  return Tensor(memory, v.shape, v.dtype).view(v.shape, v.strides, 0);
}

Tensor View::load() const {
  if (!address) return {};
  const Tensor copy(shape, dtype == DType::f64 ? DType::f64 : DType::f32);
  run_watched([&] { kernels::copy.plain(copy, in_place(*this)); });
  return copy;
}

void View::store(const Tensor& t) const {
  run_watched([&] { kernels::copy.plain(in_place(*this), t); });
}

// ---- plans with faults

// Uses up one fault.
static bool happens(int& times) {
  if (times == 0) return false;
  if (times > 0) --times;
  return true;
}

namespace {
class StandInPlan : public VendorPlan {
 public:
  StandInPlan(const char* call, std::string name, bool tf32, Work work)
      : call_(call), name_(std::move(name)), tf32_(tf32), work_(std::move(work)) {
    ++vendor_library.alive;
  }
  ~StandInPlan() override { --vendor_library.alive; }
  int64_t workspace_bytes() const override { return 0; }
  void run(Bindings bindings) const override {
    PlanFaults& faults = vendor_library.faults[name_];
    ++vendor_library.runs[name_];
    ++vendor_library.runs[call_];
    if (happens(faults.run)) throw PlanFailure("a planted failure");
    std::this_thread::sleep_for(std::chrono::milliseconds(faults.slow_ms));
    const CudaCall counted(0, tf32_);
    const auto what = [call = call_] { return call; };
    api([&] {
      for (int i = 0; i < faults.slow; ++i) enqueue(cuda::stream(), what, [] {});
      enqueue(cuda::stream(), what, [work = work_(bindings), wrong = happens(faults.wrong)] {
        const SingleThreadScope alone;  // the same bits, and TSan cannot follow OpenMP here
        const Kernels plain({});
        work(wrong);
      });
    });
  }

 private:
  const char* call_;
  std::string name_;
  bool tf32_;
  Work work_;
};
}  // namespace

Proposals propose_plans(const char* call, bool tf32, const Work& work) {
  Proposals all;
  for (const std::string& name : kPlans)
    all.push_back({name, [=]() -> std::shared_ptr<const VendorPlan> {
                     ++vendor_library.built[name];
                     if (happens(vendor_library.faults[name].build)) return nullptr;
                     return std::make_shared<StandInPlan>(call, name, tf32, work);
                   }});
  return all;
}

}  // namespace cuda_host
