// Wrapper of oneDNN: engine and primitives, tensors as its memory, errors as bellows::Error.
// Compute thread only.
#pragma once
#include <dnnl.hpp>
#include <optional>
#include <unordered_map>
#include "core/base/trace.h"
#include "core/tensor/slot.h"
#include "ops/vendor/planned_call.h"

namespace bellows::onednn {

std::string version();  // "oneDNN 3.2.0"
// Throws the oneDNN error as an Error: Exit::memory if memory ran out, else Exit::internal.
[[noreturn]] void refuse(dnnl_status_t status, const char* what);
// Returns fn(), which calls oneDNN; passes its exceptions to refuse().
template <class Fn> decltype(auto) checked(const Fn& fn) {
  try {
    return fn();
  } catch (const dnnl::error& error) {
    refuse(error.status, error.what());
  }
}

const dnnl::engine& engine();

// A primitive with its arguments: created once, run with new addresses each time.
class Plan {
 public:
  explicit Plan(dnnl::primitive primitive);
  // Runs with these addresses of arguments (DNNL_ARG_*). Those that are not bound keep the address
  // of the run before. Counted in kernel.vendor_calls and in onednn.<implementation>.
  void run(Bindings bindings);

 private:
  dnnl::memory::desc desc_of(int argument) const;

  dnnl::primitive primitive_;
  std::string implementation_;  // "brgconv:avx512_core"
  trace::Counter* runs_;
  std::unordered_map<int, dnnl::memory> args_ = {};
};

// Returns the T that the slot keeps for this key, made from the key on its first use.
template <class T, class Key> T& plan_for(Slot& slot, const Key& key) {
  return slot.get<T>(key, [&] { return checked([&] { return T(key); }); });
}

// True for f32, and for bf16 and f16 if the CPU has instructions for them (AVX512-BF16,
// AVX512-FP16) and ONEDNN_MAX_CPU_ISA allows them. Otherwise oneDNN would emulate bf16, slower than
// the plain kernels, and reject f16.
bool computes(DType dtype);
dnnl::memory::data_type type_of(DType dtype);
dnnl::memory::desc desc(const Shape& shape, dnnl::memory::format_tag tag, DType dtype);

// Converts images from one memory layout to another if they differ. Each conversion is counted in
// layout.transposes.
class Reorder {
 public:
  Reorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to);
  Tensor operator()(const Tensor& t);  // t itself, or a converted copy as raw bytes
  // For outputs: room(y) returns the buffer to write, y itself or a new one in layout `from`, and
  // finish() then converts it into y.
  Tensor room(const Tensor& y) const;
  void finish(const Tensor& room, const Tensor& y);

 private:
  void run(const Tensor& from, const Tensor& to);
  std::optional<Plan> reorder_;  // empty if the layouts are equal
  int64_t from_bytes_, to_bytes_;
};

// Cached copy of a weight in the layout that a primitive prefers. Refreshed after each change.
class Reordered {
 public:
  Reordered(const dnnl::memory::desc& from, const dnnl::memory::desc& to);
  // Returns the address of the converted copy of t, or of t itself if the layouts are equal. Valid
  // until the next call.
  const void* of(const Tensor& t);

 private:
  std::optional<Plan> reorder_;  // empty if the layouts are equal
  Tensor copy_, source_;
  uint32_t version_ = 0;
};

}  // namespace bellows::onednn
