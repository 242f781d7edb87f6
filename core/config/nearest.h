// Finds the known name that a misspelled one most likely means.
#pragma once
#include <string>
#include <vector>

namespace bellows {

// Returns the element of `known` that starts with `word`, else the one at the smallest edit
// distance. A key in the wrong section counts as one edit, so `lr` finds `optimizer.lr`. `known`
// must not be empty.
std::string nearest(const std::string& word, const std::vector<std::string>& known);

}  // namespace bellows
