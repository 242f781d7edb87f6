// The place of a rank, and a store for ranks that are threads of one process, for tests that need
// no launcher.
#pragma once
#include <condition_variable>
#include <map>
#include <mutex>
#include "core/base/check.h"
#include "dist/rendezvous/rendezvous.h"
#include "dist/rendezvous/store.h"

namespace bellows {

// All ranks are on this machine. Without a port, rank 0 chooses one.
inline Ranks place_of_rank(int rank, int world, int port = 0) {
  Ranks ranks;
  ranks.rank = ranks.local_rank = rank;
  ranks.world = ranks.local_world = world;
  ranks.port = port;
  return ranks;
}

class MemoryStore : public Store {
 public:
  void set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }
  std::string get(const std::string& key, Timeout timeout) override {
    if (!wait(key, timeout))
      fail(Exit::distributed, "store: no value of '", key, "' within ", timeout.count(), " ms");
    const std::lock_guard lock(mutex_);
    return values_.at(key);
  }
  bool wait(const std::string& key, Timeout timeout) override {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [&] { return values_.contains(key); });
  }
  int64_t add(const std::string& key, int64_t n) override {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
    std::string& value = values_[key];
    value = std::to_string((value.empty() ? 0 : std::stoll(value)) + n);
    return std::stoll(value);
  }
  void remove(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    values_.erase(key);
  }
  size_t size() {
    const std::lock_guard lock(mutex_);
    return values_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

}  // namespace bellows
