// oneDNN, wrapped once: its engine and stream, tensors as its memory, errors as ours.
#pragma once
#include <dnnl.hpp>
#include <optional>
#include <unordered_map>
#include "core/base/trace.h"
#include "core/tensor/tensor.h"

namespace bellows::onednn {

std::string version();  // "oneDNN 3.2.0"
// One of its errors as ours: exit 6 where memory ran out, 9 otherwise.
[[noreturn]] void refuse(dnnl_status_t status, const char* what);
// fn(), which makes something of oneDNN's or runs it.
template <class Fn> decltype(auto) checked(const Fn& fn) {
  try {
    return fn();
  } catch (const dnnl::error& error) {
    refuse(error.status, error.what());
  }
}

const dnnl::engine& engine();
dnnl::stream& stream();

// A primitive with its arguments. It is made once and run with other addresses each time.
class Bound {
 public:
  Bound(dnnl::primitive primitive, std::initializer_list<std::pair<int, dnnl::memory::desc>> args);
  // Where argument `which` is from now on.
  void set(int which, const void* address);
  void run();  // counted as kernel.vendor_calls, and by its implementation's name

 private:
  dnnl::primitive primitive_;
  trace::Counter* runs_;  // "onednn.brgconv:avx512_core"
  std::unordered_map<int, dnnl::memory> args_;
};

// f32, and bf16 and f16 where the CPU has arithmetic for them that oneDNN may use
// (ONEDNN_MAX_CPU_ISA takes it away): elsewhere it would emulate bf16, slower than the plain
// kernels, and refuse f16.
bool computes(DType dtype);
dnnl::memory::data_type type_of(DType dtype);
dnnl::memory::desc desc(const Shape& shape, dnnl::memory::format_tag tag, DType dtype);

// From one order of an image's numbers to another one, where they differ: layout.transposes.
class Reorder {
 public:
  Reorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to);
  Tensor operator()(const Tensor& t);  // t itself, or a copy in the other order
  // y itself, or room for what finish() brings to y.
  Tensor room(const Tensor& y) const;
  void finish(const Tensor& room, const Tensor& y);

 private:
  void run(const Tensor& from, const Tensor& to);
  std::optional<Bound> reorder_;  // none: nothing to do
  int64_t from_bytes_, to_bytes_;
};

// A tensor in the order that a primitive wants it, kept while the tensor is not written.
class Reordered {
 public:
  Reordered(const dnnl::memory::desc& from, const dnnl::memory::desc& to);
  // The reordered copy of t; t itself if that is its order.
  const void* of(const Tensor& t);

 private:
  std::optional<Bound> reorder_;  // none: nothing to do
  Tensor copy_, source_;
  uint32_t version_ = 0;
};

}  // namespace bellows::onednn
