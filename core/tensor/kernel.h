// Kernel: one operation, with a plain implementation per device and, optionally, a vendor's. The
// only dispatch in the framework; a TunedKernel (core/tensor/tuned_kernel.h) chooses by timing.
//
// An op's .cpp defines the Kernel and its plain CPU implementation, which is the reference. Its .cu
// adds the CUDA implementation, and ops/vendor/ those of libraries. To build without one of these
// files, leave it out of the build: no stubs, no #ifdef.
#pragma once
#include <atomic>
#include <optional>
#include "core/base/module_path.h"
#include "core/base/registry.h"
#include "core/device/kernel_options.h"
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
  bool thread_invariant = false;  // results have the same bits for any number of threads
  Version version = nullptr;
};

// A kernel of this build, its implementations, and how often it has run.
inline constexpr int kMostAlgorithms = 4;
struct KernelRecord {
  const char* name;
  const char* file[kDevices] = {};  // source of the plain implementation; null: none
  bool vendor[kDevices] = {};       // has a vendor implementation
  const char* algorithms[kDevices][kMostAlgorithms] = {};  // without the plain one
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

  // Runs on the device of its arguments. Throws Error, exit 2, if they are on different devices, or
  // if this build has no implementation for the device.
  R operator()(Args... args) const {
    const int device = device_of(args...);
    const RunningKernel running(record_.name);
    return takes_vendor(device) ? vendor_[device](args...) : run_plain(device, args...);
  }
  R plain(Args... args) const { return run_plain(device_of(args...), args...); }
  bool has_vendor(Device device) const { return vendor_[static_cast<int>(device)] != nullptr; }
  const char* name() const { return record_.name; }

 protected:
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

  mutable KernelRecord record_;
  Fn plain_[kDevices] = {};
  Fn vendor_[kDevices] = {};
  Vendor traits_[kDevices] = {};
};

}  // namespace bellows
