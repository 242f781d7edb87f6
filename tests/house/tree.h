// The project's own files, as the tests of the house read them.
#pragma once
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace bellows {

// The folders of the product by rank: one may include those of lower rank and itself.
inline const std::vector<std::vector<std::string>> kRanks = {
    {"core"}, {"autograd", "data"}, {"ops", "optim", "dist"}, {"models"}, {"toggles"}, {"trainer"}};

inline std::set<std::string> product_folders() {
  std::set<std::string> folders;
  for (const auto& rank : kRanks) folders.insert(rank.begin(), rank.end());
  return folders;
}

// Files of these extensions under the folders, relative to the root of the sources.
inline std::vector<std::filesystem::path> files_in(const std::set<std::string>& folders,
                                                   const std::set<std::string>& extensions) {
  namespace fs = std::filesystem;
  const fs::path root = BELLOWS_SOURCE_DIR;
  std::vector<fs::path> files;
  for (const std::string& folder : folders) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder))
      if (entry.is_regular_file() && extensions.contains(entry.path().extension()))
        files.push_back(fs::relative(entry.path(), root));
  }
  return files;
}

inline std::vector<std::string> lines_of(const std::filesystem::path& file) {
  std::ifstream in(std::filesystem::path(BELLOWS_SOURCE_DIR) / file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace bellows
