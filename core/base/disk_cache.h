// A cache on disk for what takes long to make again: compiled kernels, tuned plans. Losing it costs
// time and nothing else, so nothing in here ever fails.
#pragma once
#include <optional>
#include <set>
#include "core/base/file.h"

namespace bellows {

// $XDG_CACHE_HOME/bellows, or ~/.cache/bellows.
Path cache_folder();

// Any number of processes may share a folder. For the compute thread.
class DiskCache {
 public:
  // A folder that does not exist is made when needed.
  DiskCache() : DiskCache(cache_folder()) {}
  explicit DiskCache(const Path& folder) : folder_(folder) {}

  // What was kept for exactly this key under that name: a word for the file's name, as in
  // "pointwise-sm_90". Nothing if there is none, if it is damaged, or if it is another key's.
  std::optional<std::string> find(const std::string& name, const std::string& key) const;
  // Replaces what is there. Where it cannot be written, one line on stderr says so, once.
  void keep(const std::string& name, const std::string& key, const std::string& content);
  // Was it kept through this object? If not, an earlier run did.
  bool is_own(const std::string& name, const std::string& key) const;

 private:
  Path path_of(const std::string& name, const std::string& key) const;

  Path folder_;
  std::set<Path> own_;
  bool complained_ = false;
};

}  // namespace bellows
