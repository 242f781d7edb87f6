#include "dist/groups/collective_check.h"

namespace bellows {

std::string differences_of(const Collective& c, Store& store, const std::string& prefix,
                           const Ranks& ranks, Timeout timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  const auto key = [&](int64_t sequence, int rank) { return cat(prefix, sequence, "/", rank); };
  store.set(key(c.sequence, ranks.rank), description_of(c));
  Names started;
  for (int r = 0; r < ranks.world; ++r)
    started.push_back(store.get(key(c.sequence, r), until(end)));
  // All ranks have started this collective, so they have read the keys of earlier ones.
  if (c.sequence > 2) store.remove(key(c.sequence - 2, ranks.rank));
  for (int r = 1; r < ranks.world; ++r)
    if (started[r] != started[0])
      return cat("the ranks differ in collective ", c.sequence, ": rank 0 started \"", started[0],
                 "\", rank ", r, " \"", started[r],
                 "\"; all must start the same collectives in the same order");
  return "";
}

}  // namespace bellows
