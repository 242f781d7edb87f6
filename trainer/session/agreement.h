// Compares over the store what the ranks of a run start with: options, data, shapes, state and
// program. Ranks that differ would otherwise train different models without an error.
#pragma once
#include <string>
#include <utility>
#include <vector>
#include "dist/rendezvous/rendezvous.h"
#include "dist/rendezvous/store.h"

namespace bellows {

using Facts = std::vector<std::pair<std::string, std::string>>;  // names and values

// Returns once the facts of all ranks are equal. Throws Error, exit 7, on every rank: the message
// names the first rank that differs from rank 0, the first fact that does and both values, or the
// error that a rank has reported. `topic` is unique in the run. Waits `timeout_s` for a rank.
void agree(Store& store, const Ranks& ranks, const std::string& topic, const Facts& facts,
           double timeout_s);
// Makes agree() on that topic fail on the other ranks, with `why`. For a rank that cannot take
// part. Returns false if the store does not answer.
bool refuse(Store& store, const Ranks& ranks, const std::string& topic,
            const std::string& why) noexcept;

// Makes the other ranks wait for work of rank 0 that may take longer than dist.timeout_s, such as a
// checkpoint. Rank 0 calls it after that work. On the other ranks it returns then, and waits as
// long as rank 0's store answers. `what` is unique in the run. Throws Error, exit 7, naming `what`,
// if rank 0 has died or is stuck, or has called refuse() on the topic "rank 0".
void wait_for_rank0(Store& store, const Ranks& ranks, const std::string& what);

}  // namespace bellows
