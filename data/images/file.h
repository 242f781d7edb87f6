// Reads whole files into memory, from untrusted paths.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace bellows {

// Returns the bytes of a regular file of up to 4 GiB. Throws Error(Exit::data) for anything else (a
// missing or larger file, a folder, a pipe, a device) and Error(Exit::storage) if reading fails.
// Counter: data.file_opens.
std::vector<uint8_t> read_file(const std::string& path);

// Returns the first of `paths` that exists below `root`, as root/path; "" if none does.
std::string first_file(const std::string& root, std::initializer_list<std::string> paths);

}  // namespace bellows
