// Tensor: a cheap handle to a shaped, strided view of storage on one device.
//
// Handles share storage. Ops never write in place to a tensor that autograd tracks. Other in-place
// writers (optimizers, loaders) raise the storage's version, so that a closure that saved the
// tensor detects it.
#pragma once
#include <source_location>
#include <span>
#include <string>
#include <vector>
#include "core/base/dtype.h"
#include "core/base/pool.h"
#include "core/base/ref.h"
#include "core/device/device.h"
#include "core/tensor/shape.h"

namespace bellows {

class Storage : public RefCounted {
 public:
  using Release = void (*)(Device device, void* memory, size_t bytes) noexcept;

  Storage(size_t bytes, Device device);  // takes memory from core/device/allocator.h
  // Wraps external memory, which `release` takes back. Null: the memory outlives this object.
  Storage(void* memory, size_t bytes, Device device, Release release)
      : bytes_(static_cast<std::byte*>(memory)), size_(bytes), device_(device), release_(release) {}
  ~Storage() {
    if (release_) release_(device_, bytes_, size_);
  }
  static void* operator new(size_t bytes) { return small_block_allocate(bytes); }
  static void operator delete(void* block) { pool_release(block, sizeof(Storage)); }

  std::byte* bytes() const { return bytes_; }
  size_t size() const { return size_; }
  Device device() const { return device_; }
  bool is_from(Release release) const { return release_ == release; }

  uint32_t version = 0;  // raised by every in-place writer
  int32_t saved = 0;     // number of closures that keep it for backward

 private:
  std::byte* bytes_;
  size_t size_;
  Device device_;
  Release release_;
};

// Data that autograd attaches to a tensor; core/ never differentiates.
struct Meta : RefCounted {
  virtual ~Meta() = default;
};

class Tensor {
 public:
  Tensor() = default;
  Tensor(const Shape& shape, DType dtype, Device device = Device::cpu,
         const MemoryFormat& format = kNCHW)
      : storage_(new Storage(shape.numel() * size_of(dtype), device)),
        shape_(shape),
        strides_(strides_of(shape, format)),
        dtype_(dtype) {}

  // Allocates a dense tensor of that shape with these strides.
  Tensor(const Shape& shape, const Strides& strides, DType dtype, Device device)
      : storage_(new Storage(shape.numel() * size_of(dtype), device)),
        shape_(shape),
        strides_(strides),
        dtype_(dtype) {}

  // Dense and row-major, at the start of the storage.
  Tensor(Ref<Storage> storage, const Shape& shape, DType dtype)
      : storage_(std::move(storage)), shape_(shape), strides_(strides_of(shape)), dtype_(dtype) {}

  bool defined() const { return bool(storage_); }
  const Shape& shape() const { return shape_; }
  const Strides& strides() const { return strides_; }
  int rank() const { return shape_.rank(); }
  int64_t dim(int axis) const { return shape_[axis]; }
  int64_t numel() const { return shape_.numel(); }
  size_t nbytes() const { return numel() * size_of(dtype_); }
  DType dtype() const { return dtype_; }
  Device device() const { return storage_->device(); }
  const Ref<Storage>& storage() const { return storage_; }
  int64_t offset() const { return offset_; }

  // Returns whether the strides are those of a dense tensor in `format`. Ignores axes of size 1.
  bool is_contiguous(const MemoryFormat& format = kNCHW) const;
  bool is_dense() const;  // contiguous in some order of the axes

  // Returns the address of the first element, on this tensor's device. Throws for another type.
  template <class T> T* ptr() const {
    CHECK(dtype_of<T> == dtype_, "a tensor of ", dtype_, " was read as ", dtype_of<T>);
    return reinterpret_cast<T*>(storage_->bytes()) + offset_;
  }
  std::byte* bytes() const { return storage_->bytes() + offset_ * size_of(dtype_); }
  // Returns all elements in order, on the host. Handles share storage, so they are writable even
  // through a const handle.
  template <class T> std::span<T> data() const {
    CHECK(device() == Device::cpu, "the host reads a tensor that is on ", device());
    CHECK(is_contiguous(), "data() needs a contiguous tensor, got strides ", strides_);
    return {ptr<T>(), static_cast<size_t>(numel())};
  }
  // Returns the only element, of any dtype. On a device, waits and increments sync.count.
  double item(const std::source_location& at = std::source_location::current()) const;

  // Views share storage and have no autograd history. The ops of the same names record it.
  Tensor view(const Shape& shape, const Strides& strides, int64_t offset) const;
  Tensor view_as(const Shape& shape) const;  // contiguous only
  Tensor detach() const { return with_meta({}); }

  void raise_version() const { ++storage_->version; }
  const Ref<Meta>& meta() const { return meta_; }
  Tensor with_meta(Ref<Meta> meta) const& { return Tensor(*this).with_meta(std::move(meta)); }
  Tensor with_meta(Ref<Meta> meta) && {
    meta_ = std::move(meta);
    return std::move(*this);
  }

 private:
  Ref<Storage> storage_;
  Shape shape_;
  Strides strides_;
  int64_t offset_ = 0;  // in elements
  DType dtype_ = DType::f32;
  Ref<Meta> meta_;
};

// Returns the memory format in which an image tensor is contiguous. If two fit (one channel, one
// pixel), the strides decide; if none fits, kNCHW.
const MemoryFormat& format_of(const Tensor& t);

using Tensors = std::vector<Tensor, SmallBlockAllocator<Tensor>>;

// A tensor with its name, as models, optimizers and files exchange it.
struct NamedTensor {
  std::string name;  // "conv1.weight"
  Tensor tensor;
};
using NamedTensors = std::vector<NamedTensor>;

// Reports that work on that stream uses the tensor, whose memory belongs to another stream
// (core/device/allocator.h).
void record_use(const Tensor& t, Stream stream);

// ---- factories: allocated on the device; empty() leaves the elements uninitialized

Tensor empty(const Shape& shape, const Tensor& like);
Tensor empty_like(const Tensor& t);  // dense tensors keep their memory format
Tensor full(const Shape& shape, double value, DType dtype = DType::f32,
            Device device = Device::cpu);
Tensor full(const Shape& shape, double value, const Tensor& like);
Tensor zeros(const Shape& shape, DType dtype = DType::f32, Device device = Device::cpu);
template <class T>
Tensor tensor_of(const std::vector<T>& values, const Shape& shape, Device device = Device::cpu);

}  // namespace bellows
