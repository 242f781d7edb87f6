#pragma once
#include <cstdlib>
inline bool fault16(int n) {
  const char* const e = std::getenv("FAULT16");
  return e && std::atoi(e) == n;
}
