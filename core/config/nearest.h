// The name that somebody may have meant.
#pragma once
#include <string>
#include <vector>

namespace bellows {

// The member of `known`, which is not empty, that begins with it or takes the fewest letters to
// change. A key in the wrong section counts as one mistake, so `lr` finds `optimizer.lr`.
std::string nearest(const std::string& word, const std::vector<std::string>& known);

}  // namespace bellows
