// Finds files and reads them into memory whole, from untrusted paths.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace bellows {

// Returns the bytes of a regular file of up to 4 GiB. Throws Error(Exit::data) for anything else (a
// missing or larger file, a folder, a pipe, a device) and Error(Exit::storage) if reading fails.
// Counter: data.file_opens.
std::vector<uint8_t> read_bytes(const std::string& path);

// Returns the first of `paths` below `root` that is not a folder, as root/path; "" if none exists.
std::string first_file(const std::string& root, const std::vector<std::string>& paths);

// Returns "a 30, b 1", printable(), with at most 20 names.
std::string counted(const std::map<std::string, int64_t>& counts);

// Files that a search leaves out: their kind (a suffix, or what is wrong) and path.
using LeftOut = std::vector<std::pair<std::string, std::string>>;
// Returns "FOLDER: 14 left out: .gif 12, broken link 2; the first is PATH", printable().
std::string text_of(const std::filesystem::path& folder, const LeftOut& left_out);

struct FoundFiles {
  std::vector<std::string> paths;  // sorted
  LeftOut left_out;
};
// Finds the regular files in and below a folder that have one of kImageSuffixes, in upper or lower
// case. Follows links, but enters a folder only once. Throws Error(Exit::data) with the folder that
// cannot be read.
FoundFiles images_below(const std::filesystem::path& folder);
// Returns true for a link whose target is missing, or that is part of a cycle.
bool is_dangling(const std::filesystem::path& path);

}  // namespace bellows
