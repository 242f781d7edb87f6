// TunedKernel: a Kernel with several algorithms, of which autotuning chooses the fastest for each
// set of shapes. It keeps the choice in a Slot, which is among its arguments.
#pragma once
#include <string_view>
#include <tuple>
#include "core/base/output.h"
#include "core/base/trace.h"
#include "core/tensor/autotune.h"
#include "core/tensor/kernel.h"
#include "core/tensor/slot.h"

namespace bellows {

// The part of a tensor that a choice depends on: everything but its values and address.
struct Signature {
  explicit Signature(const Tensor& t)
      : shape(t.shape()), strides(t.strides()), dtype(t.dtype()), defined(t.defined()) {}
  Shape shape;
  Strides strides;
  DType dtype;
  bool defined;
  bool operator==(const Signature&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Signature& signature);

// Returns what the choice of an algorithm depends on: all arguments except tensor values and slots.
template <class Arg> auto signature_of(const Arg& arg) {
  if constexpr (std::is_same_v<Arg, Tensor>)
    return std::tuple(Signature(arg));
  else if constexpr (std::is_same_v<Arg, Slot>)
    return std::tuple<>();
  else
    return std::tuple(arg);
}

template <class Signature> class TunedKernel;

template <class R, class... Args> class TunedKernel<R(Args...)> : public Kernel<R(Args...)> {
 public:
  using Fn = R (*)(Args...);

  consteval explicit TunedKernel(const char* name) : Kernel<R(Args...)>(name) {}

  // Registers another algorithm, for arguments that `fits` accepts; `version` is its library's.
  bool algorithm_on(Device device, const char* name, bool (*fits)(Args...), Fn fn,
                    Version version = nullptr, const char* file = __builtin_FILE()) {
    note_registration(file);
    const int d = static_cast<int>(device);
    int i = 0;
    while (i < kMostAlgorithms && this->record_.algorithms[d][i]) ++i;
    INVARIANT(i < kMostAlgorithms, this->name(), ": no room for '", name, "' beside ", i,
              " algorithms; raise kMostAlgorithms");
    this->record_.algorithms[d][i] = name;
    algorithms_[d][i] = {name, fits, fn, version};
    return true;
  }

  R operator()(Args... args) const {
    const int device = this->device_of(args...);
    const RunningKernel running(this->name());
    if (const Fn chosen = algorithm(device, args...)) {
      for (const Algorithm& other : algorithms_[device])
        if (other.fn == chosen) trace::note_kernel(other.name);
      return chosen(args...);
    }
    return this->takes_vendor(device) ? this->vendor_[device](args...)
                                      : this->run_plain(device, args...);
  }

 private:
  struct Algorithm {
    const char* name = nullptr;
    bool (*fits)(Args...) = nullptr;
    Fn fn = nullptr;
    Version version = nullptr;
  };
  struct Tuned {
    Tuning tuning = {};
    Fn fn = nullptr;
  };

  // Returns the algorithm that autotuning chose or a test forces; null: use the default rule.
  Fn algorithm(int device, Args... args) const {
    const KernelOptions& options = kernel_options();
    if (!algorithms_[device][0].fn && !this->takes_vendor(device)) return nullptr;
    if (options.algorithm) {
      const std::vector<Algorithm> named = ways(device, options.algorithm, args...);
      return named.empty() ? nullptr : named[0].fn;
    }
    if (options.autotune == Autotune::heuristic) return nullptr;
    const auto key = std::tuple_cat(
        std::tuple(Device(device), options.vendor, options.deterministic, options.tf32),
        signature_of(args)...);
    Slot& slot = std::get<Slot&>(std::tie(args...));
    Tuned tuned = slot.template get<Tuned>(key, [] { return Tuned(); });
    if (tuned.tuning.due()) {
      tuned.fn = tune(tuned.tuning, device, key, args...);
      slot.template get<Tuned>(key, [] { return Tuned(); }) = tuned;
    }
    return tuned.fn;
  }

  // Returns the algorithms that fit, the default first; or only the one called `name`.
  std::vector<Algorithm> ways(int device, std::string_view name, Args... args) const {
    std::vector<Algorithm> all;
    const auto add = [&](const Algorithm& way) {
      if (name.empty() || name == way.name) all.push_back(way);
    };
    if (this->takes_vendor(device))
      add({"vendor", nullptr, this->vendor_[device], this->traits_[device].version});
    add({"plain", nullptr, this->plain_[device]});
    for (const Algorithm& other : algorithms_[device])
      if (other.fn && other.fits(args...)) add(other);
    return all;
  }

  template <class Key> Fn tune(Tuning& tuning, int device, const Key& key, Args... args) const {
    std::vector<Algorithm> found;
    const auto find = [&](const std::string& name) {
      found = ways(device, name, args...);
      Candidates candidates;
      for (const Algorithm& way : found)
        candidates.push_back({way.name, 0, [&, way] { way.fn(args...); }});
      return candidates;
    };
    std::string problem = std::apply(
        [&](const auto&... parts) { return cat(this->name(), cat(" ", parts)...); }, key);
    for (const Algorithm& way : ways(device, "", args...))
      problem += cat(" ", way.name, way.version ? " " + way.version() : "");
    const auto best = tuning.make(static_cast<Device>(device), problem, find);
    return best ? found[*best].fn : nullptr;
  }

  Algorithm algorithms_[kDevices][kMostAlgorithms] = {};
};

}  // namespace bellows
