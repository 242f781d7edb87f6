// Pieces of K consecutive elements, which a thread loads or stores at once.
#pragma once
#include "core/base/half.h"

namespace bellows {

template <int K, class T> __device__ AlignedVector<T, K> load(const T* from) {
  return *reinterpret_cast<const AlignedVector<T, K>*>(from);
}
template <class T, int K> __device__ void store(T* to, const AlignedVector<T, K>& piece) {
  *reinterpret_cast<AlignedVector<T, K>*>(to) = piece;
}

// Calls fn.operator()<K>(), K elements per piece: 16 bytes if they divide n, else one element.
template <class T, class Fn> void in_pieces(int64_t n, const Fn& fn) {
  if (n % AlignedVector<T>::kSize == 0)
    fn.template operator()<AlignedVector<T>::kSize>();
  else
    fn.template operator()<1>();
}

}  // namespace bellows
