// A rank's TCP connections to all others, made by Gloo.
#pragma once
#include <gloo/context.h>
#include "dist/rendezvous/rendezvous.h"

namespace bellows {

// Returns the text of a Gloo exception without the place in Gloo's sources.
std::string plain(const std::string& gloo_message);

// Connects to all ranks, which find each other through keys of the store that start with `prefix`.
// Listens on the interface in GLOO_SOCKET_IFNAME, or else on the one that routes to ranks.host.
// Gloo's thread inherits name and signal mask of the caller. One thread at a time may run
// collectives. Throws Error, exit 7, naming the rank that did not come within `timeout`; exit 6
// without memory or threads.
using GlooMesh = std::shared_ptr<gloo::Context>;
GlooMesh connect_mesh(const Ranks& ranks, Store& store, const std::string& prefix, Timeout timeout);
// Closes all connections. A collective in progress throws, here and on the other ranks.
void close_mesh(gloo::Context& mesh);

}  // namespace bellows
