// A shared library that the program can do without: opened when it is first needed, so a program
// built with CUDA starts where there is none.
#pragma once
#include <dlfcn.h>
#include <cstdio>
#include "core/check.h"

namespace bellows {

class Library {
 public:
  // Where it cannot be opened: one line on stderr, which says what happens in its place.
  Library(const char* name, const char* otherwise) : handle_(dlopen(name, RTLD_LAZY)) {
    if (!handle_) std::fprintf(stderr, "warning: %s; %s\n", dlerror(), otherwise);
  }
  explicit operator bool() const { return handle_ != nullptr; }
  void* handle() const { return handle_; }

  // Looks up a function, of the type that its header declares.
  template <class Fn> void find(const char* name, Fn*& function) const {
    function = reinterpret_cast<Fn*>(dlsym(handle_, name));
    CHECK(function, name, ": missing in the library that was loaded: ", dlerror());
  }

 private:
  void* handle_;  // stays open: such libraries do not like to be unloaded
};

}  // namespace bellows
