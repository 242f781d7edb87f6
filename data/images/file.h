// Whole files into memory, from paths that nobody can vouch for.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace bellows {

// Only regular files of up to 4 GiB: a folder, a pipe or a device is Error(Exit::data), as is a
// missing file. A disk that fails to read is Error(Exit::storage). Counted as data.file_opens.
std::vector<uint8_t> read_file(const std::string& path);

// The first of these paths below `root` where there is something; "" if there is nothing at any.
std::string first_file(const std::string& root, std::initializer_list<std::string> paths);

}  // namespace bellows
