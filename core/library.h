// A shared library that the program can do without: opened when it is first needed, so a program
// built with CUDA starts where there is none.
#pragma once
#include <dlfcn.h>
#include <cstdio>
#include "core/check.h"

namespace bellows {

class Library {
 public:
  // Quiet where it cannot be opened.
  explicit Library(const char* name) : handle_(dlopen(name, RTLD_LAZY | RTLD_LOCAL)) {}
  // There: one line on stderr, which says what happens in its place.
  Library(const char* name, const char* otherwise) : Library(name) {
    if (!handle_) std::fprintf(stderr, "warning: %s; %s\n", dlerror(), otherwise);
  }
  explicit operator bool() const { return handle_ != nullptr; }
  void* handle() const { return handle_; }

  // The function of that name; null where the library is not there, or lacks it.
  template <class Fn> Fn* find(const char* name) const {
    return handle_ ? reinterpret_cast<Fn*>(dlsym(handle_, name)) : nullptr;
  }
  // One that must be there, of the type that its header declares.
  template <class Fn> void require(const char* name, Fn*& function) const {
    function = find<Fn>(name);
    CHECK(function, name, ": missing in the library that was loaded: ", dlerror());
  }

 private:
  void* handle_;  // stays open: such libraries do not like to be unloaded
};

}  // namespace bellows
