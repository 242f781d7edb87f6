// Uneven: treatment of the last samples of an epoch if they do not fill a batch on each rank.
#pragma once

namespace bellows {

enum class Uneven {
  drop,  // the last, incomplete round of batches is left out
  pad,   // adds samples from the beginning of the epoch, so all ranks have the same number
  join,  // ranks may have fewer samples or none; means count existing samples only
};

}  // namespace bellows
