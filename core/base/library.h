// Optional shared library, opened at run time, so that a program built with CUDA also starts on a
// machine without it.
#pragma once
#include <dlfcn.h>
#include <string>
#include "core/base/check.h"

namespace bellows {

// True if a relative or empty entry of LD_LIBRARY_PATH finds the library. Those entries depend on
// the working folder, so any user who may write there could run code in this process.
bool is_planted(const std::string& name);

class Library {
 public:
  // Opens the library from the system's and the configured folders, never from the working folder.
  // A failure prints a warning on stderr: the reason and then `otherwise`, the consequence for the
  // user. It is silent without `otherwise`; test it with operator bool.
  explicit Library(const char* name, const char* otherwise = nullptr);
  explicit operator bool() const { return handle_ != nullptr; }
  void* handle() const { return handle_; }

  // Returns the function called `name`, or null if the library or the function is missing.
  template <class Fn> Fn* find(const char* name) const {
    return handle_ ? reinterpret_cast<Fn*>(dlsym(handle_, name)) : nullptr;
  }
  // As find(), but throws Error, exit 2, if the library is loaded and lacks the function.
  template <class Fn> Fn* require(const char* name) const {
    Fn* const function = find<Fn>(name);
    CHECK(function || !handle_, name, ": missing in the library that was loaded: ", dlerror());
    return function;
  }
  // Calls the function called `name`, which takes exactly these types and returns an int. Returns
  // -1 if it is missing.
  template <class... Args> int call(const char* name, Args... args) const {
    const auto function = find<int(Args...)>(name);
    return function ? function(args...) : -1;
  }

 private:
  void* handle_ = nullptr;  // never closed: such libraries do not unload cleanly
};

// Declares a member: the function of the same name in `loaded`, a Library. Its type is that in the
// library's header.
#define LIBRARY_FUNCTION(name) /* NOLINTNEXTLINE(bugprone-macro-parentheses) */ \
  decltype(&::name) name = loaded.require<decltype(::name)>(#name)

}  // namespace bellows
