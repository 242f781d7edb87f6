// The place of a rank, for tests that need no launcher.
#pragma once
#include "dist/rendezvous/rendezvous.h"

namespace bellows {

// All ranks are on this machine. Without a port, rank 0 chooses one.
inline Ranks place_of_rank(int rank, int world, int port = 0) {
  Ranks ranks;
  ranks.rank = ranks.local_rank = rank;
  ranks.world = ranks.local_world = world;
  ranks.port = port;
  return ranks;
}

}  // namespace bellows
