// StoreServer: the store's values, in the process of rank 0.
#pragma once
#include <atomic>
#include <thread>
#include "dist/rendezvous/rendezvous.h"
#include "dist/rendezvous/sockets.h"

namespace bellows {

// One thread serves all ranks. A connection is a stranger's until it has proved the token, for up
// to two seconds. Keys, values, connections and what is kept for each are bounded. Counter:
// dist.store_strangers, connections that did not become a rank's. Each rank keeps one connection
// while it lives. If its process closes that without a goodbye, the key `gone` names the rank.
class StoreServer {
 public:
  // Listens on ranks.port (0: any free one). Throws Error, exit 7, or 6 without a descriptor.
  explicit StoreServer(const Ranks& ranks);
  ~StoreServer();  // serves until all ranks have disconnected, for up to two seconds
  // Returns the given ranks with the address at which this process reaches the server.
  Ranks seen_from_inside() const;

 private:
  struct Loop;
  const Ranks ranks_;
  const Descriptor listener_;
  std::atomic<bool> leaving_ = false;
  std::thread thread_;
};

}  // namespace bellows
