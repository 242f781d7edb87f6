// Escape: turns errors of libjpeg and libpng, which leave the library by longjmp, into exceptions.
#pragma once
#include <csetjmp>
#include "core/base/check.h"

namespace bellows {

// The library's error function writes `message`, then jumps to `buffer`.
struct Escape {
  std::jmp_buf buffer;
  char message[256] = "";
};

// Calls fn(). Throws Error(Exit::data) if the library reports an error in it. The jump skips no
// destructor as long as fn and the functions that it calls hold no object with one while they call
// the library.
template <class Fn> void guarded(const char* format, Escape& escape, const Fn& fn) {
  if (setjmp(escape.buffer)) fail(Exit::data, format, ": ", escape.message);
  fn();
}

}  // namespace bellows
