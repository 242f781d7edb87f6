#include "data/images/file.h"
#include <sys/stat.h>
#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include "core/base/check.h"
#include "core/base/file.h"
#include "core/base/trace.h"
#include "core/base/words.h"

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
  if (!fs::is_symlink(path, error)) return false;
  const bool missing = fs::status(path, error).type() == fs::file_type::not_found;
  return missing || error == std::errc::too_many_symbolic_link_levels;
}

std::string text_of(const fs::path& folder, const LeftOut& left_out) {
  constexpr size_t kMost = 8;  // kinds in one line
  if (left_out.empty()) return "";
  std::map<std::string, int64_t> kinds;
  for (const auto& [kind, path] : left_out) ++kinds[kind];
  std::vector<std::string> counts;
  for (const auto& [kind, count] : kinds)
    if (counts.size() <= kMost)
      counts.push_back(counts.size() == kMost ? "..." : cat(printable(kind), " ", count));
  return cat(printable(folder.native()), ": ", left_out.size(), " left out: ", joined(counts),
             "; the first is ", printable(left_out.front().second));
}

// Folders that a search has entered: device and inode. A link may lead to one of them, or above it.
using Entered = std::set<std::pair<dev_t, ino_t>>;

static void find_below(const fs::path& folder, std::initializer_list<const char*> suffixes,
                       Entered& entered, FoundFiles& found) {
  for (const Path& path : paths_in(folder, Exit::data)) {
    std::string kind = path.extension();
    std::ranges::transform(kind, kind.begin(), [](unsigned char c) { return std::tolower(c); });
    const bool wanted = std::ranges::count(suffixes, kind);
    struct stat info = {};
    if (::stat(path.c_str(), &info) < 0)
      kind = is_dangling(path) ? "broken link" : "unreadable";
    else if (S_ISDIR(info.st_mode) && entered.emplace(info.st_dev, info.st_ino).second)
      find_below(path, suffixes, entered, found), kind = "";
    else if (S_ISDIR(info.st_mode))
      kind = "link to a folder that is read already";
    else if (S_ISREG(info.st_mode) && wanted)
      found.paths.push_back(path), kind = "";
    else if (!S_ISREG(info.st_mode) || kind.empty())
      kind = S_ISREG(info.st_mode) ? "without a suffix" : "no regular file";
    if (!kind.empty()) found.left_out.emplace_back(kind, path);
  }
}

FoundFiles files_below(const fs::path& folder, std::initializer_list<const char*> suffixes) {
  FoundFiles found;
  Entered entered;
  if (struct stat info = {}; ::stat(folder.c_str(), &info) == 0)
    entered.emplace(info.st_dev, info.st_ino);
  find_below(folder, suffixes, entered, found);
  std::ranges::sort(found.paths);
  return found;
}

}  // namespace bellows
