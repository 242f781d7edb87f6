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

Update::Update(const Batch& whole, int64_t parts, double weight) : whole_(whole), weight_(weight) {
  CHECK(parts >= 1, "an update of ", parts, " micro-batches");
  const int64_t n = samples();
  parts = std::min(parts, n);
  parts_.reserve(parts);
  for (int64_t i = 0; i < parts; ++i) {
    Batch part = slice(whole, i * n / parts, (i + 1) * n / parts);
    part.last = i + 1 == parts;
    part.share = weight * part.size() / n;
    parts_.push_back(std::move(part));
  }
}

}  // namespace bellows
