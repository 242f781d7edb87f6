// Paths of the source tree and of the built programs; in a bundle, below $BELLOWS_BUNDLE. Only
// place.cpp is compiled with them, so checkouts in different folders share the compiler cache.
#pragma once
#include <string>

namespace bellows {

std::string source_dir();
std::string build_dir();  // without a bundle only
std::string program_dir();
std::string fakes_dir();  // libraries that stand in for a driver's
bool has_labs();          // false in a tree whose folder labs/ is deleted

}  // namespace bellows
