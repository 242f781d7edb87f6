// runs/ab-XXXXXX, the folder for what the arms of `ab` write. It is removed at the end; one whose
// process was killed is removed by the next.
#pragma once
#include <string>
#include "core/base/file.h"

namespace bellows {

class ScratchFolder {
 public:
  ScratchFolder();  // throws Error, exit 8
  ~ScratchFolder();
  ScratchFolder(ScratchFolder&&) = delete;
  std::string operator/(const char* name) const { return (path_ / name).string(); }

 private:
  int make();  // returns the locked mark

  Path path_;        // before lock_, whose initialiser sets it
  Descriptor lock_;  // of the folder's mark; the kernel drops it with the process
};

}  // namespace bellows
