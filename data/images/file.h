// Finds files and reads them into memory whole, from untrusted paths.
#pragma once
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

namespace bellows {

// Returns the bytes of a regular file of up to 4 GiB. Throws Error(Exit::data) for anything else (a
// missing or larger file, a folder, a pipe, a device) and Error(Exit::storage) if reading fails.
// Counter: data.file_opens.
std::vector<uint8_t> read_bytes(const std::string& path);

// Returns the first of `paths` below `root` that is not a folder, as root/path; "" if none exists.
std::string first_file(const std::string& root, const std::vector<std::string>& paths);

struct FoundFiles {
  std::vector<std::string> paths;     // sorted
  std::vector<std::string> dangling;  // broken links with one of the suffixes
};
// Finds the regular files, or links to one, in and below a folder that have one of the suffixes, in
// upper or lower case. Does not enter links to folders. Throws Error(Exit::data) with the folder if
// it cannot be read.
FoundFiles files_below(const std::filesystem::path& folder,
                       std::initializer_list<std::string> suffixes);
// Returns true for a link whose target is missing, or that is part of a cycle.
bool is_dangling(const std::filesystem::path& path);
// Returns "FOLDER: 2 links lead nowhere, left out; the first is PATH", printable().
std::string left_out(const std::filesystem::path& folder, const std::vector<std::string>& dangling);

}  // namespace bellows
