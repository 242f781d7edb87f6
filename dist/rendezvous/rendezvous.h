// Rank of this process in a run, and the rendezvous with the other ranks.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include "dist/base/options.h"
#include "dist/rendezvous/store.h"

namespace bellows {

// This process's place in a run, as its launcher described it. The default: alone.
struct Ranks {
  int rank = 0, world = 1;
  int local_rank = 0, local_world = 1;  // among the ranks of this machine
  std::string host = "127.0.0.1";       // address of rank 0
  int port = 0;                         // port of rank 0's store
  std::string attempt = "0";            // restart count; prefixes all keys of the store
  std::string token;                    // shared secret; "": `host` is this machine's loopback
  std::string launcher;                 // "trainer launch", "torchrun", "mpirun", "srun" or ""
};

// Reads the variables of trainer launch, torchrun, Open MPI or Slurm. `variable` returns the value
// of an environment variable, or null. dist.store_port overrides the port. Throws Error, exit 2,
// for values that are missing or impossible.
Ranks ranks_from(const std::function<const char*(const char*)>& variable,
                 const DistOptions& options);
// As ranks_from(), for the environment of this process, which is read once.
const Ranks& this_rank(const DistOptions& options);

// Throws Error, exit 2, if a launcher started several ranks, which `verb` does not support.
void check_alone(const std::string& verb, const DistOptions& options);

// Returns why `host` has no address, such as "Name or service not known"; "" if it has one.
std::string why_unknown(const std::string& host);

// Returns true if the rank's process has ended without a goodbye, as a killed one does.
bool is_gone(Store& store, int rank);

// Rank 0 serves the store, and all ranks connect to it. Returns once all have arrived; null in a
// world of one. Throws Error, exit 7, naming the missing ranks after dist.timeout_s, or rank 0 at
// most a second later if it is stuck; also if the port is in use, or if rank 0 refuses this rank.
// Rank 0's store is served until its last reference is gone and, for a few seconds more, until the
// other ranks have disconnected.
std::shared_ptr<Store> meet(const Ranks& ranks, const DistOptions& options);

}  // namespace bellows
