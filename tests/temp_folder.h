// A temporary folder, removed at the end of its lifetime.
#pragma once
#include <filesystem>
#include <fstream>
#include <string>

namespace bellows {

struct TempFolder {
  std::filesystem::path path;
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "bellows_XXXXXX").string();
    path = mkdtemp(name.data());
  }
  TempFolder(TempFolder&&) = delete;
  ~TempFolder() { std::filesystem::remove_all(path); }
  // Returns the path of the file.
  std::string write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((path / name).parent_path());
    std::ofstream(path / name, std::ios::binary) << bytes;
    return (path / name).string();
  }
};

}  // namespace bellows
