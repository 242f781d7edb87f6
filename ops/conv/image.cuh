// An image tensor (N, C, H, W) with any strides, as a kernel argument of the GPU convolutions.
#pragma once
#include "core/device/launch.cuh"
#include "core/tensor/kernel.h"

namespace bellows {

template <class T> struct Image {
  using Value = Acc<std::remove_const_t<T>>;

  explicit Image(const Tensor& t)
      : data(t.ptr<std::remove_const_t<T>>()),
        n(t.strides()[0]),
        c(t.strides()[1]),
        h(int(t.strides()[2])),
        w(int(t.strides()[3])),
        height(int(t.dim(2))),
        width(int(t.dim(3))) {
    const int64_t last = t.dim(2) * t.strides()[2] + t.dim(3) * t.strides()[3];
    CHECK(t.numel() == 0 || last < int64_t{1} << 31, running_kernel(), ": one plane of ", t.shape(),
          " with strides ", t.strides(), " is beyond 32-bit indices");
  }

  __device__ T* plane(int image, int channel) const { return data + image * n + channel * c; }

  // One row of a plane: zeros left and right of it, and only zeros if the row is outside the plane.
  struct Line {
    __device__ Value operator[](int column) const {
      return unsigned(column) < width ? Value(data[column * w]) : Value(0);
    }
    const T* data;
    int w;
    unsigned width;
  };
  __device__ Line line(const T* plane, int row) const {
    return {plane + row * h, w, unsigned(row) < unsigned(height) ? unsigned(width) : 0};
  }

  T* data;
  int64_t n, c;  // strides
  int h, w;
  int height, width;
};

}  // namespace bellows
