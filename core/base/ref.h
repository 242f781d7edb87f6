// Ref: an intrusive reference-counting pointer. A handle is one word, without a control block.
#pragma once
#include <atomic>
#include <cstdint>
#include <utility>

namespace bellows {

// Base class of objects that Refs own. The last Ref deletes the object. The count is atomic.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(RefCounted&&) = delete;
  int64_t references() const { return count_.load(std::memory_order_acquire); }

 private:
  template <class T> friend class Ref;
  mutable std::atomic<int64_t> count_{0};
};

template <class T> class Ref {
 public:
  Ref() = default;
  explicit Ref(T* object) : object_(object) { retain(); }
  Ref(const Ref& other) : object_(other.object_) { retain(); }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ && object_->count_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete object_;
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  bool operator==(const Ref& other) const = default;

 private:
  void retain() const {
    if (object_) object_->count_.fetch_add(1, std::memory_order_relaxed);
  }
  T* object_ = nullptr;
};

}  // namespace bellows
