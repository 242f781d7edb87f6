#include "ops/base/map.h"

namespace bellows {

template <class T>
BlockReader<T>::BlockReader(const Tensor& x, const Tensor& y)
    : walk_(y.shape(), {&y.strides(), &x.strides()}), x_(x.ptr<T>()) {}

template <class T> const T* BlockReader<T>::block(int64_t begin, int64_t end, T* room) const {
  const int64_t length = walk_.length, step = walk_.steps[1];
  int64_t row = begin / length;
  const T* in_place = nullptr;
  T* to = room;
  walk_.for_rows(row, (end - 1) / length + 1, [&](const auto& at) {
    const int64_t first = std::max(begin - row * length, int64_t(0));
    const int64_t last = std::min(end - row * length, length), n = last - first;
    const T* const from = x_ + at[1] + first * step;
    if (step == 1 && n == end - begin) {
      in_place = from;
    } else if (step == 1) {
      std::copy_n(from, n, to);
    } else if (step == 0) {
      std::fill_n(to, n, *from);
    } else {
      for (int64_t i = 0; i < n; ++i) to[i] = from[i * step];
    }
    to += n;
    ++row;
  });
  return in_place ? in_place : room;
}

static bool lies_like(const Tensor& x, const Tensor& y) { return x.strides() == y.strides(); }

template <class T, size_t N>
void map_blocks(const Tensor& y, const Tensor* const (&x)[N], const MapLoop<T, N>& loop) {
  INVARIANT(y.is_dense(), "an elementwise kernel writes strides ", y.strides());
  if (y.numel() == 0) return;
  T* const y_ = y.ptr<T>();
  const auto each = [&]<size_t... k>(std::index_sequence<k...>) {
    if ((lies_like(*x[k], y) && ...)) {
      const std::array<const T*, N> x_{x[k]->template ptr<T>()...};
      return parallel_for(y.numel(), kMapChunk,
                          [&](int64_t b, int64_t e) { loop(y_ + b, {(x_[k] + b)...}, e - b); });
    }
    const std::array<BlockReader<T>, N> readers{BlockReader<T>(*x[k], y)...};
    parallel_for(y.numel(), kMapChunk, [&](int64_t begin, int64_t end) {
      T room[N][kMapBlock];
      for (int64_t b = begin; b < end; b += kMapBlock) {
        const int64_t e = std::min(b + kMapBlock, end);
        loop(y_ + b, {readers[k].block(b, e, room[k])...}, e - b);
      }
    });
  };
  each(std::make_index_sequence<N>());
}

#define INSTANTIATE(T)                                                                      \
  template class BlockReader<T>;                                                            \
  template void map_blocks(const Tensor&, const Tensor* const(&)[1], const MapLoop<T, 1>&); \
  template void map_blocks(const Tensor&, const Tensor* const(&)[2], const MapLoop<T, 2>&); \
  template void map_blocks(const Tensor&, const Tensor* const(&)[3], const MapLoop<T, 3>&);
INSTANTIATE(double)
INSTANTIATE(float)
INSTANTIATE(Bf16)
INSTANTIATE(F16)

}  // namespace bellows
