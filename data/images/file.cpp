#include "data/images/file.h"
#include <sys/stat.h>
#include <algorithm>
#include <cctype>
#include <set>
#include "core/base/check.h"
#include "core/base/file.h"
#include "core/base/trace.h"
#include "core/base/words.h"
#include "data/images/image_file.h"

namespace bellows {

namespace fs = std::filesystem;

std::vector<uint8_t> read_bytes(const std::string& path) {
  trace::count<"data.file_opens">();
  const InputFile file(path, Exit::data);
  if (file.size() > int64_t{UINT32_MAX}) fail(Exit::data, printable(path), ": larger than 4 GiB");
  std::vector<uint8_t> bytes(file.size());
  file.read(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

std::string first_file(const std::string& root, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    std::string file = cat(root, "/", path);
    const Kind kind = kind_of(file, Exit::data);
    if (kind != Kind::nothing && kind != Kind::folder) return file;
  }
  return "";
}

bool is_dangling(const fs::path& path) {
  std::error_code error;
  return fs::is_symlink(path, error) && !fs::exists(path, error);
}

std::string counted(const std::map<std::string, int64_t>& counts) {
  constexpr size_t kMost = 20;  // names in one line
  std::vector<std::string> parts;
  for (const auto& [name, count] : counts)
    if (parts.size() <= kMost) parts.push_back(cat(printable(name), " ", count));
  if (parts.size() > kMost) parts.back() = "...";
  return joined(parts);
}

std::string text_of(const fs::path& folder, const LeftOut& left_out) {
  std::map<std::string, int64_t> kinds;
  for (const auto& [kind, path] : left_out) ++kinds[kind];
  return cat(printable(folder.native()), ": ", left_out.size(), " left out: ", counted(kinds),
             "; the first is ", printable(left_out.front().second));
}

// Folders that a search has entered: device and inode. A link may lead to one of them, or above it.
using Entered = std::set<std::pair<dev_t, ino_t>>;

static void find_below(const fs::path& folder, Entered& entered, FoundFiles& found) {
  struct stat info = {};
  if (::stat(folder.c_str(), &info) == 0 && !entered.emplace(info.st_dev, info.st_ino).second) {
    found.left_out.emplace_back("link to a folder that is read already", folder);
    return;
  }
  for (const Path& path : paths_in(folder, Exit::data)) {
    std::string suffix = path.extension();
    std::ranges::transform(suffix, suffix.begin(), [](unsigned char c) { return std::tolower(c); });
    std::error_code error;
    const bool regular = fs::is_regular_file(path, error);
    if (fs::is_directory(path, error))
      find_below(path, entered, found);
    else if (regular && std::ranges::count(kImageSuffixes, suffix))
      found.paths.push_back(path);
    else if (regular)
      found.left_out.emplace_back(suffix.empty() ? "without a suffix" : suffix, path);
    else
      found.left_out.emplace_back(is_dangling(path) ? "broken link" : "no regular file", path);
  }
}

FoundFiles images_below(const fs::path& folder) {
  FoundFiles found;
  Entered entered;
  find_below(folder, entered, found);
  std::ranges::sort(found.paths);
  return found;
}

}  // namespace bellows
