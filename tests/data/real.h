// Path of real data sets: $BELLOWS_DATA, or shared/data beside the sources. Tests that need one are
// skipped without it.
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
