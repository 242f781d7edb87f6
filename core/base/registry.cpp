#include "core/base/registry.h"

namespace bellows {

static std::set<std::string>& files() {
  static std::set<std::string> all;
  return all;
}

const std::set<std::string>& registered_files() { return files(); }
void note_registration(const std::string& file) { files().insert(file); }

}  // namespace bellows
