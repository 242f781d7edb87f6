// The debug check dist.check_collectives: all ranks must start the same collectives in one order.
#pragma once
#include "dist/groups/flight_recorder.h"
#include "dist/rendezvous/rendezvous.h"

namespace bellows {

// Compares `c` with the collective of the same sequence number on every other rank, through keys
// of the store that start with `prefix`. Returns a message that names two ranks and what each of
// them started, the same message on all ranks, or "" if all are equal. Throws Error, exit 7, if a
// rank starts none within `timeout`. Call it for consecutive sequence numbers. Costs as many reads
// as there are ranks.
std::string differences_of(const Collective& c, Store& store, const std::string& prefix,
                           const Ranks& ranks, Timeout timeout);

}  // namespace bellows
