// A lock file: one process at a time, which writes into it who it is.
#pragma once
#include "core/base/file.h"

namespace bellows {

// The kernel drops the lock of a dead process, so the file itself may stay.
class FileLock {
 public:
  // Opens the file, or makes it; locks nothing yet. Throws Error, exit 8.
  explicit FileLock(const Path& path);

  // Takes the lock; false if another process has it. Throws Error, exit 8, if it cannot be locked
  // at all.
  bool try_take();
  // try_take() again and again, for that long.
  bool take_within(double seconds);
  // Holder of the lock: "process 7 on host", or "another process" if the file does not say.
  std::string owner() const;

 private:
  Path path_;
  Descriptor file_;
};

}  // namespace bellows
