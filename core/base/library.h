// A shared library that the program can do without: opened when it is first needed, so a program
// built with CUDA starts where there is none.
#pragma once
#include <dlfcn.h>
#include <string>
#include "core/base/check.h"

namespace bellows {

// True if a relative or empty entry of LD_LIBRARY_PATH finds the library. Those entries depend on
// the working folder, so anybody who may write there could run code in this process.
bool is_planted(const std::string& name);

class Library {
 public:
  // Opens it from the system's and the configured folders, never from the working folder. Quiet
  // where it cannot be opened.
  explicit Library(const char* name);
  // There: one line on stderr, which says what happens in its place.
  Library(const char* name, const char* otherwise);
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
  std::string reason_;  // why there is no handle
  void* handle_;        // stays open: such libraries do not like to be unloaded
};

}  // namespace bellows
