// Store: small values that the ranks of a run share by name, for rendezvous and for errors.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

namespace bellows {

using Timeout = std::chrono::milliseconds;
inline Timeout timeout_of(double seconds) { return Timeout(int64_t(seconds * 1000)); }
// Returns the time until `end`, but at least `least`.
inline Timeout until(std::chrono::steady_clock::time_point end, Timeout least = Timeout(1)) {
  return std::max(least, std::chrono::ceil<Timeout>(end - std::chrono::steady_clock::now()));
}

// Thread-safe; a get() that waits does not block other calls. Keys have at most 256 bytes, values
// at most 1 MiB. Throws Error, exit 7, naming the key, if the store is gone or does not answer
// within dist.timeout_s. The key `gone` lists the ranks whose processes ended without a goodbye, as
// killed ones do: "1 3".
class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  // Returns the value, waiting until a rank has set it. Timeout 0: get() and wait() do not wait.
  virtual std::string get(const std::string& key, Timeout timeout) = 0;
  // Returns true once `key` exists, false after the timeout.
  virtual bool wait(const std::string& key, Timeout timeout) = 0;
  // Adds n to a counter that starts at 0. Returns the new value, which get() returns as text.
  virtual int64_t add(const std::string& key, int64_t n) = 0;
  virtual void remove(const std::string& key) = 0;
  // For a rank that ends with an error, because rank 0 may be stuck: once `limit` has passed, all
  // calls fail at once. Timeout::max(): no limit.
  virtual void end_within([[maybe_unused]] Timeout limit) {}
};

}  // namespace bellows
