// A TCP port for the ranks that a test starts.
#pragma once
#include <unistd.h>
#include "core/base/check.h"
#include "dist/rendezvous/sockets.h"

namespace bellows {

// Returns a port of 127.0.0.1 that no process listens on, another one with each call and in each
// process: tests run side by side, and the port is taken only later. Below those that the system
// gives to connections.
inline int free_port() {
  constexpr int kFirst = 10000, kPorts = 20000, kOfAProcess = 37;
  for (static int calls = 0;; ++calls) {
    const int port = kFirst + (getpid() * kOfAProcess + calls) % kPorts;
    try {
      listen_on("127.0.0.1", port);
      ++calls;
      return port;
    } catch (const Error&) {
    }
  }
}

}  // namespace bellows
