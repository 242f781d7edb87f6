// The project's own files, for the tests in tests/house.
#pragma once
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>
#include "tests/place.h"

namespace bellows {

// Folders of the product by rank: a file may include from folders of lower rank and from its own.
inline const std::vector<std::vector<std::string>> kRanks = {{"core"},
                                                             {"autograd", "data"},
                                                             {"ops", "optim", "dist"},
                                                             {"models"},
                                                             {"plan"},
                                                             {"toggles"},
                                                             {"trainer"},
                                                             {"labs"}};

// Rooms of a folder in ascending rank: a file may include from rooms of lower rank and from its
// own. "." are the files in the folder itself. In folders that are not listed, rooms may include
// only the folder's own files.
inline const std::map<std::string, std::vector<std::string>> kRooms = {
    {"core", {"base", "config", "device", "tensor"}},
    {"dist", {"base", "rendezvous", "groups", "."}},
    {"data", {"images", "sets", "packed", "loader", "feeds"}},
    {"ops", {"base", ".", "matmul", "attention", "norm", "conv", "chain", "vendor"}},
    {"models", {"module", "losses", "metrics", "layers", "rewrites", "."}},
    {"trainer", {"session", "state", "log", "run", "launch", "verbs", "ab", "."}},
    {"labs", {"page", "bench", "plan", "doctor", "profile", "diagnose"}}};

inline std::set<std::string> product_folders() {
  std::set<std::string> folders;
  for (const auto& rank : kRanks) folders.insert(rank.begin(), rank.end());
  return folders;
}

// Returns files with these extensions, or all without any, under the folders, relative to the root
// of the sources.
inline std::vector<std::filesystem::path> files_in(const std::set<std::string>& folders,
                                                   const std::set<std::string>& extensions = {}) {
  namespace fs = std::filesystem;
  const fs::path root = source_dir();
  std::vector<fs::path> files;
  for (const std::string& folder : folders) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder))
      if (entry.is_regular_file() &&
          (extensions.empty() || extensions.contains(entry.path().extension())))
        files.push_back(fs::relative(entry.path(), root));
  }
  return files;
}

inline std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(std::filesystem::path(source_dir()) / file);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline std::vector<std::string> lines_of(const std::filesystem::path& file) {
  std::ifstream in(std::filesystem::path(source_dir()) / file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace bellows
