// What to type instead of a key that nobody knows: typing mistakes, keys of another section, and
// the names that users of PyTorch and Paddle bring along.
#pragma once
#include <string>
#include <vector>
#include "core/config/nearest.h"

namespace bellows {

// "it is called 'optimizer.lr' here" or "the nearest known key is 'optimizer.lr'".
std::string hint(const std::string& key, const std::vector<std::string>& known);

// What the user gave, in quotes and without line ends, for a message.
std::string on_one_line(const std::string& text);

// Names used elsewhere, each with the end of the key that has its place here. A hint is given only
// where such a key exists.
struct OtherName {
  const char* theirs;
  const char* ours;
};
const std::vector<OtherName>& other_names();

}  // namespace bellows
