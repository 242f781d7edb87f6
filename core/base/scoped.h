// Scoped: gives a variable another value until the end of a scope. It ends on the thread on which
// it began, because most such variables are thread_local.
#pragma once
#include <type_traits>
#include <utility>

namespace bellows {

template <class T> class Scoped {
 public:
  Scoped(T& variable, std::type_identity_t<T> now)
      : variable_(variable), before_(std::exchange(variable, std::move(now))) {}
  ~Scoped() { variable_ = std::move(before_); }
  Scoped(Scoped&&) = delete;

 private:
  T& variable_;
  T before_;
};

}  // namespace bellows
