#include "core/base/disk_cache.h"
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>
#include <cstdlib>
#include <cstring>
#include <utility>
#include "core/base/crc32c.h"
#include "core/base/output.h"

namespace bellows {

// An entry is a file of this head, the key and the content, without padding.
namespace {
struct Head {
  char magic[8] = {'b', 'e', 'l', 'l', 'o', 'w', 's', '1'};
  uint64_t key_size = 0, content_size = 0;
  uint32_t checksum = 0;  // CRC-32C of the key followed by the content
  uint32_t unused = 0;
};
constexpr int64_t kMostBytes = int64_t{1} << 28;
}  // namespace

static Head head_of(const std::string& key, const std::string& content) {
  Head head;
  head.key_size = key.size();
  head.content_size = content.size();
  head.checksum = crc32c(bytes_of(content), crc32c(bytes_of(key)));
  return head;
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
    if (entry.size() < sizeof(Head) + key.size()) return std::nullopt;
    const std::string content = entry.substr(sizeof(Head) + key.size());
    const Head expected = head_of(key, content);
    const bool whole = std::memcmp(entry.data(), &expected, sizeof(Head)) == 0 &&
                       entry.compare(sizeof(Head), key.size(), key) == 0;
    return whole ? std::optional(content) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool DiskCache::is_own(const std::string& name, const std::string& key) const {
  return own_.contains(path_of(name, key));
}

void DiskCache::keep(const std::string& name, const std::string& key, const std::string& content) {
  const Head head = head_of(key, content);
  const Bytes pieces[] = {std::as_bytes(std::span(&head, 1)), bytes_of(key), bytes_of(content)};
  try {
    make_folders(folder_);
    remove_temporaries(folder_);
    write_file(path_of(name, key), pieces);
    own_.insert(path_of(name, key));
  } catch (const Error& error) {
    if (!std::exchange(complained_, true))
      warn(cat("nothing is cached in ", folder_.native(), ": ", error.what()));
  }
}

}  // namespace bellows
