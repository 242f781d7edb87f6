// Where real data sets lie, if they do: tests that need one skip without it.
#pragma once
#include <cstdlib>
#include <string>
#include "tests/place.h"

namespace bellows {

inline std::string real_data(const std::string& name) {
  const char* const given = std::getenv("BELLOWS_DATA");
  return (given ? std::string(given) : source_dir() + "/../shared/data") + "/" + name;
}

}  // namespace bellows
