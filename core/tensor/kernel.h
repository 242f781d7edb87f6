// Kernel: one operation, with a plain implementation per device and, optionally, a vendor's and
// other algorithms. The only dispatch in the framework.
//
// An op's .cpp defines the Kernel and its plain CPU implementation, which is the reference. Its .cu
// adds the CUDA implementation, and ops/vendor/ those of libraries. To build without one of these
// files, leave it out of the build: no stubs, no #ifdef.
#pragma once
#include <atomic>
#include <optional>
#include <string_view>
#include <tuple>
#include "core/base/module_path.h"
#include "core/base/output.h"
#include "core/base/registry.h"
#include "core/device/kernel_options.h"
#include "core/tensor/autotune.h"
#include "core/tensor/slot.h"
#include "core/tensor/tensor.h"

namespace bellows {

template <class Arg>
concept TensorList = std::is_convertible_v<const Arg&, std::span<const Tensor>>;
template <class Arg>
concept NamesDevice = std::is_same_v<Arg, Tensor> || std::is_same_v<Arg, Device> || TensorList<Arg>;

// Returns the device of an argument; nullopt for a number, an empty list or an undefined tensor.
template <class Arg> std::optional<Device> device_in(const Arg& arg) {
  if constexpr (std::is_same_v<Arg, Device>) {
    return arg;
  } else if constexpr (std::is_same_v<Arg, Tensor>) {
    return arg.defined() ? std::optional(arg.device()) : std::nullopt;
  } else if constexpr (TensorList<Arg>) {
    const std::span<const Tensor> list = arg;
    return list.empty() ? std::nullopt : device_in(list.front());
  } else {
    return std::nullopt;
  }
}

using Version = std::string (*)();  // a library's version; choices are valid for one only
struct Vendor {
  bool thread_invariant = false;  // the same bits for any number of threads
  Version version = nullptr;
};

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
template <class Arg>
concept CanBeSigned = std::is_same_v<Arg, Tensor> || std::is_same_v<Arg, Slot> ||
    requires(std::ostream& out, const Arg& arg) {
  out << arg;
};

// A kernel of this build, its implementations, and how often it has run.
inline constexpr int kMostAlgorithms = 4;
struct KernelRecord {
  const char* name;
  const char* file[kDevices] = {};  // source of the plain implementation; null: none
  bool vendor[kDevices] = {};       // has a vendor implementation
  const char* algorithms[kDevices][kMostAlgorithms] = {};  // besides the plain one
  // Number of runs of the plain implementation when no tuned algorithm was chosen. Counted without
  // locking the bus: exact if only the compute thread runs the kernel.
  std::atomic<int64_t> runs[kDevices] = {};
};
inline std::vector<KernelRecord*>& kernel_records() {
  static std::vector<KernelRecord*> all;
  return all;
}

template <class Signature> class Kernel;

template <class R, class... Args> class Kernel<R(Args...)> {
 public:
  static_assert((NamesDevice<std::remove_cvref_t<Args>> || ...),
                "a kernel needs a Tensor, a list of them or a Device among its arguments");
  using Fn = R (*)(Args...);

  // Constant-initialized, so it is ready before any file registers, in whatever order they link.
  consteval explicit Kernel(const char* name) : record_{name} {}

  // Registers the plain implementation for a device.
  bool on(Device device, Fn fn, const char* file = __builtin_FILE()) {
    note_registration(file);
    if (!plain_[0] && !plain_[1]) kernel_records().push_back(&record_);
    record_.file[static_cast<int>(device)] = file;
    plain_[static_cast<int>(device)] = fn;
    return true;
  }
  // Registers a library's implementation, used if KernelOptions request vendor kernels. It may call
  // plain() for arguments that it does not support.
  bool vendor_on(Device device, Fn fn, Vendor traits = {}, const char* file = __builtin_FILE()) {
    note_registration(file);
    record_.vendor[static_cast<int>(device)] = true;
    vendor_[static_cast<int>(device)] = fn;
    traits_[static_cast<int>(device)] = traits;
    return true;
  }

  // Registers another algorithm, for arguments that `fits` accepts; `version` is its library's. If
  // several implementations fit, autotuning chooses one and keeps it in the Slot among the
  // arguments.
  bool algorithm_on(Device device, const char* name, bool (*fits)(Args...), Fn fn,
                    Version version = nullptr, const char* file = __builtin_FILE()) {
    static_assert(kTunable, "autotuning needs a Slot, and arguments that it can print");
    note_registration(file);
    const int d = static_cast<int>(device);
    int i = 0;
    while (i < kMostAlgorithms && record_.algorithms[d][i]) ++i;
    INVARIANT(i < kMostAlgorithms, this->name(), ": no room for '", name, "' beside ", i,
              " algorithms; raise kMostAlgorithms");
    record_.algorithms[d][i] = name;
    algorithms_[d][i] = {name, fits, fn, version};
    return true;
  }

  // Runs on the device of its arguments. Throws Error, exit 2, if they are on different devices, or
  // if this build has no implementation for the device.
  R operator()(Args... args) const {
    const int device = device_of(args...);
    const RunningKernel running(record_.name);
    if constexpr (kTunable)
      if (const Fn chosen = algorithm(device, args...)) return chosen(args...);
    if (takes_vendor(device)) return vendor_[device](args...);
    return run_plain(device, args...);
  }
  R plain(Args... args) const { return run_plain(device_of(args...), args...); }
  bool has_vendor(Device device) const { return vendor_[static_cast<int>(device)] != nullptr; }
  const char* name() const { return record_.name; }

 private:
  int device_of(const Args&... args) const {
    std::optional<Device> device;
    const auto take = [&](std::optional<Device> here) {
      CHECK(!device || !here || *device == *here, name(), ": one tensor is on ", *device,
            ", another one on ", *here);
      if (!device) device = here;
    };
    (take(device_in(args)), ...);
    CHECK(device, name(), ": no device to run on, its tensors are undefined and its lists empty");
    return static_cast<int>(*device);
  }
  bool takes_vendor(int device) const {
    const KernelOptions& options = kernel_options();
    return options.vendor && vendor_[device] &&
           (!options.deterministic || traits_[device].thread_invariant);
  }
  R run_plain(int device, Args... args) const {
    CHECK(plain_[device], name(), ": no ", static_cast<Device>(device), " kernel in this build");
    auto& runs = record_.runs[device];
    runs.store(runs.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return plain_[device](args...);
  }

  // ---- algorithms

  static constexpr bool kTunable = (std::is_same_v<std::remove_cvref_t<Args>, Slot> || ...) &&
                                   (CanBeSigned<std::remove_cvref_t<Args>> && ...);
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
    if (!algorithms_[device][0].fn && !takes_vendor(device)) return nullptr;
    if (options.algorithm) {
      const std::vector<Algorithm> named = ways(device, options.algorithm, args...);
      return named.empty() ? nullptr : named[0].fn;
    }
    if (options.autotune == Autotune::heuristic) return nullptr;
    const auto key = std::tuple_cat(
        std::tuple(Device(device), options.vendor, options.deterministic, options.tf32),
        signature_of(args)...);
    Slot& slot = slot_among(args...);
    Tuned tuned = slot.template get<Tuned>(key, [] { return Tuned(); });
    if (tuned.tuning.due()) {
      tuned.fn = tune(tuned.tuning, device, key, args...);
      slot.template get<Tuned>(key, [] { return Tuned(); }) = tuned;
    }
    return tuned.fn;
  }

  // Returns all that fit, the default first; or only the one called `name`.
  std::vector<Algorithm> ways(int device, std::string_view name, Args... args) const {
    std::vector<Algorithm> all;
    const auto add = [&](const Algorithm& way) {
      if (name.empty() || name == way.name) all.push_back(way);
    };
    if (takes_vendor(device)) add({"vendor", nullptr, vendor_[device], traits_[device].version});
    add({"plain", nullptr, plain_[device]});
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
    std::string problem =
        std::apply([&](const auto&... parts) { return cat(name(), cat(" ", parts)...); }, key);
    for (const Algorithm& way : ways(device, "", args...))
      problem += cat(" ", way.name, way.version ? " " + way.version() : "");
    const auto best = tuning.make(static_cast<Device>(device), problem, find);
    return best ? found[*best].fn : nullptr;
  }

  static Slot& slot_among(Args... args) {
    Slot* slot = nullptr;
    const auto look = [&]<class Arg>(Arg& arg) {
      if constexpr (std::is_same_v<Arg, Slot>) slot = &arg;
    };
    (look(args), ...);
    return *slot;
  }

  mutable KernelRecord record_;
  Fn plain_[kDevices] = {};
  Fn vendor_[kDevices] = {};
  Vendor traits_[kDevices] = {};
  Algorithm algorithms_[kDevices][kMostAlgorithms] = {};
};

}  // namespace bellows
