// ReservedPort: a free TCP port for a process that this one starts.
#pragma once
#include "core/base/file.h"

namespace bellows {

// While the object exists, a server on any address of this machine can take the port only with
// SO_REUSEADDR, and the system gives it to nobody who asks for any port.
class ReservedPort {
 public:
  ReservedPort();  // throws Error, exit 7
  int number() const { return number_; }

 private:
  Descriptor socket_;
  int number_;
};

}  // namespace bellows
