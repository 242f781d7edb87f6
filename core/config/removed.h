// Names of version 0.1 that are gone: toggles, options, flags, and entries of open collections.
#pragma once
#include <string>

namespace bellows {

// Returns "removed in 0.2, because ..." if `name` was removed (`huge_pages`, `train.dry_updates`,
// `muon`, `trainer plan --gpu`), else "".
std::string removal(const std::string& name);

}  // namespace bellows
