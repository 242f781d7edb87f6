// A TCP port for the ranks that a test starts.
#pragma once
#include "dist/rendezvous/sockets.h"

namespace bellows {

// Returns a port of 127.0.0.1 that no process listens on.
inline int free_port() {
  const Descriptor listener = listen_on("127.0.0.1", true, 0);
  return local_address_of(listener.get()).second;
}

}  // namespace bellows
