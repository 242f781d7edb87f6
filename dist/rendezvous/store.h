// Store: small values that the ranks of a run share by name, for rendezvous and for errors.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace bellows {

using Timeout = std::chrono::milliseconds;

// Any thread; a get that waits holds up no other call. Keys have at most 256 bytes, values at most
// 1 MiB. Throws Error, exit 7, on timeouts (of set, add and remove: dist.timeout_s) and if the
// store is gone; the message names the key.
class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  // Returns the value, waiting until a rank has set it. A timeout of 0 asks once.
  virtual std::string get(const std::string& key, Timeout timeout) = 0;
  // Returns true once `key` exists, false after the timeout. A timeout of 0 asks once.
  virtual bool wait(const std::string& key, Timeout timeout) = 0;
  // Adds n to a counter that starts at 0. Returns the new value, which get() returns as text.
  virtual int64_t add(const std::string& key, int64_t n) = 0;
  virtual void remove(const std::string& key) = 0;
  // Replaces dist.timeout_s as the limit of later calls. For a rank that ends with an error: the
  // store may be what does not answer. A store in this process has no such limit.
  virtual void set_timeout(Timeout) {}
};

}  // namespace bellows
