#include "dist/groups/reduce_function.h"

namespace bellows {

template <class T> static void add_scaled(T* to, const T* a, const T* b, size_t n, Acc<T> factor) {
  for (size_t i = 0; i < n; ++i) to[i] = T((Acc<T>(a[i]) + Acc<T>(b[i])) * factor);
}

void add_scaled(DType dtype, void* to, const void* a, const void* b, size_t n, double factor) {
  if (dtype == DType::i64) {
    const auto *x = static_cast<const int64_t*>(a), *y = static_cast<const int64_t*>(b);
    for (size_t i = 0; i < n; ++i) static_cast<int64_t*>(to)[i] = x[i] + y[i];
    return;
  }
  visit_stored(dtype, [&]<class T>(T) {
    add_scaled(static_cast<T*>(to), static_cast<const T*>(a), static_cast<const T*>(b), n,
               Acc<T>(factor));
  });
}

void divide(DType dtype, void* to, size_t n, double divisor) {
  visit_stored(dtype, [&]<class T>(T) {
    T* const values = static_cast<T*>(to);
    for (size_t i = 0; i < n; ++i) values[i] = T(Acc<T>(values[i]) / Acc<T>(divisor));
  });
}

}  // namespace bellows
