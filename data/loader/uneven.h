// Uneven: what ranks do with the last samples of an epoch, when they do not fill a batch on each.
#pragma once

namespace bellows {

enum class Uneven {
  drop,  // the last, incomplete round of batches is left out
  pad,   // samples from the beginning of the epoch give every rank as many
  join,  // ranks may have fewer samples, or none, and means count the samples there are
};

}  // namespace bellows
