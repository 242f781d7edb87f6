// Where in the model the current thread is: ops, errors and random numbers are keyed by it.
#pragma once
#include <cstdint>
#include <string>

namespace bellows {

// Interned, never freed: a node of the graph may outlive the module it came from.
struct Site {
  std::string path;   // "layer3.0.conv2", empty outside of any module
  uint64_t hash = 0;  // of the path; keys the random numbers drawn there
};
const Site& site_of(const std::string& path);
const Site*& current_site();

class AtSite {
 public:
  explicit AtSite(const Site& site) : previous_(current_site()) { current_site() = &site; }
  ~AtSite() { current_site() = previous_; }
  AtSite(AtSite&&) = delete;

 private:
  const Site* previous_;
};

}  // namespace bellows
