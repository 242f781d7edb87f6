// ReservedPort: a free TCP port for a process that this one starts.
#pragma once
#include "core/base/file.h"

namespace bellows {

// While the object exists, the system assigns the port to no process that requests any free port,
// and a server on this machine can take it only with SO_REUSEADDR.
class ReservedPort {
 public:
  ReservedPort();  // throws Error, exit 7
  int number() const { return number_; }

 private:
  Descriptor socket_;
  int number_;
};

}  // namespace bellows
