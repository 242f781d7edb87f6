// Suggestions for unknown names and keys: corrected typing mistakes, keys of another section, and
// names that users of PyTorch and Paddle know.
#pragma once
#include <map>
#include <string>
#include <vector>
#include "core/base/words.h"

namespace bellows {

// Returns the element of `known` that starts with `word`, else the one at the smallest edit
// distance. A key in the wrong section counts as one edit, so `lr` finds `optimizer.lr`. `known`
// must not be empty.
std::string nearest(const std::string& word, const std::vector<std::string>& known);

// Returns true if at most half of the letters after the last dot differ.
bool is_like(const std::string& word, const std::string& key);

// Returns "it is called 'optimizer.lr' here", "the nearest known key is 'optimizer.lr'" or, if more
// than half of the letters differ, where all keys are listed. `known`: keys, and the names that
// each has in other frameworks; not empty.
std::string hint(const std::string& of, const std::map<std::string, Names>& known);

// Returns "; write on" or another correction if other YAML readers would accept the text, "" for
// other mistakes. `accepts`: as in Option.
std::string remedy(std::string text, const std::string& accepts);

// Returns how the meaning of a name in other frameworks differs from that here; "" if it does not.
std::string remark(const std::string& name);

// Quotes user input for a message, without line ends and cut after 60 bytes.
std::string on_one_line(const std::string& text);

}  // namespace bellows
