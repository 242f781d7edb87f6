// Kernel: one signature; per device a plain implementation and, where there is one, a vendor's.
// The only dispatch in the framework.
//
// An op's .cpp defines the Kernel and its plain CPU body, which is the definition; its .cu adds the
// CUDA body, and ops/vendor/ the library's. Leaving one of those files out of the build is all it
// takes to build without it: no stubs, no #ifdef.
#pragma once
#include <atomic>
#include <optional>
#include <utility>
#include "core/kernel_options.h"
#include "core/registry.h"
#include "core/tensor.h"

namespace bellows {

template <class Arg>
concept TensorList = std::is_convertible_v<const Arg&, std::span<const Tensor>>;
template <class Arg>
concept NamesDevice = std::is_same_v<Arg, Tensor> || std::is_same_v<Arg, Device> || TensorList<Arg>;

// Where an argument lives; nowhere if it is a number, an empty list or a tensor left out.
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

// The kernel that this thread is in, for messages of errors; null outside of any.
inline const char*& running_kernel() {
  static constinit thread_local const char* name = nullptr;
  return name;
}
struct RunningKernel {
  explicit RunningKernel(const char* name) : outer(std::exchange(running_kernel(), name)) {}
  ~RunningKernel() { running_kernel() = outer; }
  RunningKernel(const RunningKernel&) = delete;
  const char* const outer;
};

struct Vendor {
  bool thread_invariant = false;  // the same bits for any number of threads
};

// For tests: every kernel of this build, and on which devices it has run.
struct KernelRecord {
  const char* name;
  const char* file[kDevices] = {};  // of the plain implementation; null: there is none
  bool vendor[kDevices] = {};       // a library has one
  // Launches. Counted without locking the bus: exact for what only the compute thread runs.
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

  // Constant-initialised, so it is ready before any file registers, in whatever order they link.
  consteval explicit Kernel(const char* name) : record_{name} {}

  bool on(Device device, Fn fn, const char* file = __builtin_FILE()) {
    registered_files().insert(file);
    if (!plain_[0] && !plain_[1]) kernel_records().push_back(&record_);
    record_.file[static_cast<int>(device)] = file;
    plain_[static_cast<int>(device)] = fn;
    return true;
  }
  // A library's implementation, taken when KernelOptions ask for vendor kernels. It may hand what
  // it does not support to plain().
  bool vendor_on(Device device, Fn fn, Vendor traits = {}, const char* file = __builtin_FILE()) {
    registered_files().insert(file);
    record_.vendor[static_cast<int>(device)] = true;
    vendor_[static_cast<int>(device)] = fn;
    traits_[static_cast<int>(device)] = traits;
    return true;
  }

  // Runs on the device of the first argument that has one.
  R operator()(Args... args) const {
    const int device = device_of(args...);
    const KernelOptions& options = kernel_options();
    const RunningKernel running(record_.name);
    if (options.vendor && vendor_[device] &&
        (!options.deterministic || traits_[device].thread_invariant))
      return vendor_[device](args...);
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
