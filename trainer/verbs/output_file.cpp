#include "trainer/verbs/output_file.h"

namespace bellows {

void check_place(const Path& file, const std::string& where) {
  if (file.empty()) return;
  const Path folder = file.has_parent_path() ? file.parent_path() : ".";
  CHECK(kind_of(folder, Exit::usage) == Kind::folder, where, ": no folder ", folder.string(),
        "; make it, or name a file in another one");
  CHECK(kind_of(file, Exit::usage) != Kind::folder, where, ": ", file.string(),
        " is a folder; name a file");
}

}  // namespace bellows
