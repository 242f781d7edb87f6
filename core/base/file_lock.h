// Lock file for one process at a time. The holder writes into it which process it is.
#pragma once
#include "core/base/file.h"

namespace bellows {

// The kernel releases the lock of a dead process, so the file itself may stay.
class FileLock {
 public:
  // Opens or creates the file, without locking it. Throws Error, exit 8.
  explicit FileLock(const Path& path);

  // Takes the lock. Returns false if another process holds it. Throws Error, exit 8, if the file
  // cannot be locked or written.
  bool try_take();
  // Retries try_take() for up to `seconds`.
  bool take_within(double seconds);
  // Returns the holder of the lock: "process 7 on host", or "another process" if unknown.
  std::string owner() const;

 private:
  Path path_;
  Descriptor file_;
};

}  // namespace bellows
