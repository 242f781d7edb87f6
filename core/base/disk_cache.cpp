#include "core/base/disk_cache.h"
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>
#include <algorithm>
#include <cstdlib>
#include <utility>
#include "core/base/crc32c.h"
#include "core/base/output.h"

namespace bellows {

static constexpr int64_t kMostBytes = int64_t{1} << 28;

// Returns the file of an entry: a line with a checksum and the key's size, the key, the content.
static std::string entry_of(const std::string& key, const std::string& content) {
  const uint32_t checksum = crc32c(bytes_of(content), crc32c(bytes_of(key)));
  return fmt::format("bellows {:08x} {}\n{}{}", checksum, key.size(), key, content);
}

Path cache_folder() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return Path(value ? value : "");
  };
  const Path caches = variable("XDG_CACHE_HOME"), home = variable("HOME");
  if (caches.is_absolute()) return caches / "bellows";
  const passwd* const user = home.is_absolute() ? nullptr : getpwuid(getuid());
  return (user ? Path(user->pw_dir) : "/" / home) / ".cache" / "bellows";  // always absolute
}

// Keys with equal checksums share a file, which holds the last one written. find() compares the key
// that the file contains.
Path DiskCache::path_of(const std::string& name, const std::string& key) const {
  return folder_ / fmt::format("{}-{:08x}", name, crc32c(bytes_of(key)));
}

std::optional<std::string> DiskCache::find(const std::string& name, const std::string& key) const {
  const Path path = path_of(name, key);
  try {
    if (kind_of(path, Exit::storage) != Kind::file) return std::nullopt;
    const std::string entry = read_file(path, kMostBytes, Exit::storage);
    const std::string content = entry.substr(std::min(entry.size(), entry_of(key, "").size()));
    return entry == entry_of(key, content) ? std::optional(content) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool DiskCache::is_own(const std::string& name, const std::string& key) const {
  return own_.contains(path_of(name, key));
}

void DiskCache::keep(const std::string& name, const std::string& key, const std::string& content) {
  try {
    make_folders(folder_);
    remove_temporaries(folder_);
    write_file(path_of(name, key), bytes_of(entry_of(key, content)));
    own_.insert(path_of(name, key));
  } catch (const Error& error) {
    if (!std::exchange(complained_, true))
      warn(cat("nothing is cached in ", folder_.native(), ": ", error.what()));
  }
}

}  // namespace bellows
