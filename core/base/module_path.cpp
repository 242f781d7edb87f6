#include "core/base/module_path.h"
#include <map>
#include <mutex>

namespace bellows {

// FNV-1a and a final mix, because paths differ in their last letters only.
static uint64_t hash_of(const std::string& path) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const unsigned char letter : path) hash = (hash ^ letter) * 0x100000001b3;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9;
  return hash ^ (hash >> 31);
}

const ModuleSite& site_of(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, ModuleSite>& all = *new std::map<std::string, ModuleSite>;
  const std::lock_guard lock(mutex);
  return all.try_emplace(path, ModuleSite{path, hash_of(path)}).first->second;
}

const ModuleSite*& current_site() {
  static const ModuleSite& outside = site_of("");
  static thread_local const ModuleSite* site = &outside;
  return site;
}

}  // namespace bellows
