// Disk cache for results that are slow to compute again: compiled kernels, tuned plans. Losing an
// entry costs only time, so no I/O error is ever thrown.
#pragma once
#include <optional>
#include <set>
#include "core/base/file.h"

namespace bellows {

// Returns $XDG_CACHE_HOME/bellows, or ~/.cache/bellows if that variable is not an absolute path.
Path cache_folder();

// Any number of processes may share a folder. Not thread-safe: for the compute thread only.
class DiskCache {
 public:
  // keep() creates the folder if it does not exist.
  DiskCache() : DiskCache(cache_folder()) {}
  explicit DiskCache(const Path& folder) : folder_(folder) {}

  // Returns the content that was kept for exactly this `key`. `name` begins the file name, as in
  // "pointwise-sm_90". Returns nullopt if there is no entry, if it is damaged, or if it belongs to
  // another key.
  std::optional<std::string> find(const std::string& name, const std::string& key) const;
  // Writes or replaces an entry. The first failure prints one warning on stderr.
  void keep(const std::string& name, const std::string& key, const std::string& content);
  // Returns whether this object kept the entry, rather than an earlier run.
  bool is_own(const std::string& name, const std::string& key) const;

 private:
  Path path_of(const std::string& name, const std::string& key) const;

  Path folder_;
  std::set<Path> own_;
  bool complained_ = false;
};

}  // namespace bellows
