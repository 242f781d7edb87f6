#include "tests/cuda_host/vendor/vendor.h"
#include <chrono>
#include <thread>
#include "core/device/kernel_options.h"
#include "core/device/parallel.h"
#include "core/tensor/walk.h"
#include "ops/vendor/cuda_call.h"
#include "tests/cuda_host/runtime.h"

namespace cuda_host {

using namespace bellows;

namespace {

template <class T> using Computed = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Calls fn(element of the view, element of the copy) for each pair.
template <class T, class Fn>
void for_each_pair(T* elements, const Strides& strides, const Tensor& copy, const Fn& fn) {
  if (copy.numel() == 0) return;
  const Walk<2> walk(copy.shape(), {&copy.strides(), &strides});
  Computed<T>* const out = copy.ptr<Computed<T>>();
  run_watched([&] {
    for (int64_t i = 0; i < copy.numel(); ++i) {
      const auto [to, from] = walk.at(i);
      fn(elements[from], out[to]);
    }
  });
}

}  // namespace

Tensor View::load() const {
  if (!bytes_) return {};
  const Tensor copy(shape_, dtype_ == DType::f64 ? DType::f64 : DType::f32);
  visit_dtype(dtype_, [&]<class T>(T) {
    for_each_pair(reinterpret_cast<T*>(bytes_), strides_, copy,
                  [](const T& element, auto& out) { out = Computed<T>(element); });
  });
  return copy;
}

void View::store(const Tensor& t) const {
  visit_dtype(dtype_, [&]<class T>(T) {
    for_each_pair(reinterpret_cast<T*>(bytes_), strides_, t,
                  [](T& element, const auto& value) { element = T(value); });
  });
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
