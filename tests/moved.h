// Increase of a counter since the construction of this object.
#pragma once
#include "core/base/trace.h"

namespace bellows {

class Moved {
 public:
  explicit Moved(const char* name) : counter_(trace::counter(name)), start_(counter_.value()) {}
  operator int64_t() const { return counter_.value() - start_; }

 private:
  trace::Counter& counter_;
  int64_t start_;
};

}  // namespace bellows
