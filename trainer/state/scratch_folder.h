// runs/ab-XXXXXX: the folder for files of the arms of `ab`. The destructor removes it. A folder
// whose process was killed is removed by the next ScratchFolder.
#pragma once
#include <string>
#include "core/base/file.h"

namespace bellows {

class ScratchFolder {
 public:
  ScratchFolder();  // throws Error (exit 8)
  ~ScratchFolder();
  ScratchFolder(ScratchFolder&&) = delete;
  std::string operator/(const char* name) const { return (path_ / name).string(); }

 private:
  int make();  // returns the descriptor of the locked mark

  Path path_;        // before lock_: its initializer sets path_
  Descriptor lock_;  // on the mark; the kernel releases it when the process ends
};

}  // namespace bellows
