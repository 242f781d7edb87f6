#include "data/loader/batch.h"

namespace bellows {

static Tensor rows(const Tensor& t, int64_t begin, int64_t end) {
  Shape shape = t.shape();
  shape[0] = end - begin;
  return t.view(shape, t.strides(), t.offset() + begin * t.strides()[0]);
}

Batch slice(const Batch& batch, int64_t begin, int64_t end) {
  return {rows(batch.x, begin, end), rows(batch.y, begin, end)};
}

Update::Update(const Batch& whole, int64_t parts) : samples_(whole.size()) {
  CHECK(parts >= 1, "an update of ", parts, " micro-batches");
  parts = std::min(parts, samples_);
  parts_.reserve(parts);
  for (int64_t i = 0; i < parts; ++i) {
    Batch part = slice(whole, i * samples_ / parts, (i + 1) * samples_ / parts);
    part.last = i + 1 == parts;
    part.share = double(part.size()) / samples_;
    parts_.push_back(std::move(part));
  }
}

}  // namespace bellows
