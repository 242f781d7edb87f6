#include "data/images/file.h"
#include <algorithm>
#include <cctype>
#include "core/base/check.h"
#include "core/base/file.h"
#include "core/base/trace.h"

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

FoundFiles files_below(const fs::path& folder, std::initializer_list<std::string> suffixes) {
  FoundFiles found;
  std::error_code error, unknown;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    std::string suffix = at->path().extension();
    std::ranges::transform(suffix, suffix.begin(), [](unsigned char c) { return std::tolower(c); });
    if (!std::ranges::count(suffixes, suffix)) continue;
    if (is_dangling(at->path()))
      found.dangling.push_back(at->path());
    else if (at->is_regular_file(unknown))
      found.paths.push_back(at->path());
  }
  if (error) fail(Exit::data, printable(folder.native()), ": ", error.message());
  std::ranges::sort(found.paths);
  return found;
}

std::string left_out(const fs::path& folder, const std::vector<std::string>& dangling) {
  return cat(printable(folder.native()), ": ", dangling.size(),
             dangling.size() == 1 ? " link leads" : " links lead",
             " nowhere, left out; the first is ", printable(dangling.front()));
}

}  // namespace bellows
