// Module path and kernel that the current thread is in. Ops, error messages and random values are
// keyed by the module path.
#pragma once
#include <cstdint>
#include <string>
#include "core/base/scoped.h"

namespace bellows {

// A module path and its hash. Interned and never freed: a graph node may outlive its module.
struct ModuleSite {
  std::string path;   // "layer3.0.conv2"; empty outside modules
  uint64_t hash = 0;  // hash of `path`; part of the key of random values drawn in the module
};
// site_of() is thread-safe; current_site() belongs to the calling thread.
const ModuleSite& site_of(const std::string& path);
const ModuleSite*& current_site();

// Sets the current site of this thread during its lifetime.
struct ModuleScope : Scoped<const ModuleSite*> {
  explicit ModuleScope(const ModuleSite& site) : Scoped(current_site(), &site) {}
};

// Returns the name of the kernel running on this thread, for error messages; null outside kernels.
inline const char*& running_kernel() {
  static constinit thread_local const char* name = nullptr;
  return name;
}
struct RunningKernel : Scoped<const char*> {
  explicit RunningKernel(const char* name) : Scoped(running_kernel(), name) {}
};

}  // namespace bellows
