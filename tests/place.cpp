#include "tests/place.h"
#include <cstdlib>
#include <filesystem>

namespace bellows {

static std::string place(const char* built, const char* in_bundle) {
  const char* const bundle = std::getenv("BELLOWS_BUNDLE");
  return bundle ? std::string(bundle) + in_bundle : built;
}

std::string source_dir() { return place(BELLOWS_SOURCE_DIR, ""); }
std::string build_dir() { return BELLOWS_BINARY_DIR; }
std::string program_dir() { return place(BELLOWS_BINARY_DIR, "/bin"); }
std::string fakes_dir() { return place(BELLOWS_BINARY_DIR "/tests/trainer", "/tests/trainer"); }
bool has_labs() { return std::filesystem::exists(source_dir() + "/labs"); }

}  // namespace bellows
