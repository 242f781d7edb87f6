// Words of commands that messages print, as a shell takes them.
#pragma once
#include <string>

namespace bellows {

// Returns `word` in single quotes if a shell would change or split it, else unchanged.
std::string quoted(const std::string& word);

}  // namespace bellows
