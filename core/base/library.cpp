#include "core/base/library.h"
#include <unistd.h>
#include <cstdlib>
#include <string>
#include <string_view>
#include "core/base/output.h"

namespace bellows {

bool is_planted(const std::string& name) {
  const char* const path = std::getenv("LD_LIBRARY_PATH");
  if (!path || !*path || name.find('/') != name.npos) return false;
  for (std::string_view rest = path;;) {
    const size_t end = rest.find_first_of(":;");
    std::string_view entry = rest.substr(0, end);
    if (entry.empty()) entry = ".";
    if (entry[0] != '/' && access(cat(entry, "/", name).c_str(), F_OK) == 0) return true;
    if (end == rest.npos) return false;
    rest.remove_prefix(end + 1);
  }
}

Library::Library(const char* name, const char* otherwise) {
  std::string reason;
  if (is_planted(name)) {
    reason = cat(name, ": not loaded from a relative or empty entry of LD_LIBRARY_PATH");
  } else if (handle_ = dlopen(name, RTLD_LAZY | RTLD_LOCAL); !handle_) {
    reason = dlerror();
  }
  if (!handle_ && otherwise) warn(cat(reason, "; ", otherwise));
}

}  // namespace bellows
