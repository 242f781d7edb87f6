// Paths of the source tree and of the built programs; in a bundle, below $BELLOWS_BUNDLE.
#pragma once
#include <cstdlib>
#include <string>

namespace bellows {

inline std::string place(const char* built, const char* in_bundle) {
  const char* const bundle = std::getenv("BELLOWS_BUNDLE");
  return bundle ? std::string(bundle) + in_bundle : built;
}
inline std::string source_dir() { return place(BELLOWS_SOURCE_DIR, ""); }
inline std::string program_dir() { return place(BELLOWS_BINARY_DIR, "/bin"); }
// Folder of the libraries that stand in for a driver's.
inline std::string fakes_dir() {
  return place(BELLOWS_BINARY_DIR "/tests/trainer", "/tests/trainer");
}

}  // namespace bellows
