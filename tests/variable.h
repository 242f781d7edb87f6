// Sets an environment variable, or unsets it for null, during its lifetime.
#pragma once
#include <cstdlib>
#include <optional>
#include <string>

namespace bellows {

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~Variable() { set(before_ ? before_->c_str() : nullptr); }

 private:
  void set(const char* value) const { value ? setenv(name_, value, 1) : unsetenv(name_); }
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace bellows
