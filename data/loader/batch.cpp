#include "data/loader/batch.h"

namespace bellows {

static Tensor rows(const Tensor& t, int64_t begin, int64_t end) {
  Shape shape = t.shape();
  shape[0] = end - begin;
  return t.view(shape, t.strides(), t.offset() + begin * t.strides()[0]);
}

Batch slice(const Batch& batch, int64_t begin, int64_t end) {
  Batch part = batch;
  part.x = rows(batch.x, begin, end);
  part.y = rows(batch.y, begin, end);
  if (batch.lengths.defined()) part.lengths = rows(batch.lengths, begin, end);
  return part;
}

// A rank without a sample of its own has a sample of weight 0.
Update::Update(const Batch& whole, int64_t parts) : whole_(whole) {
  CHECK(parts >= 1, "an update of ", parts, " micro-batches");
  const int64_t n = samples();
  parts = std::min(parts, n);
  parts_.reserve(parts);
  for (int64_t i = 0; i < parts; ++i) {
    Batch part = slice(whole, i * n / parts, (i + 1) * n / parts);
    part.last = i + 1 == parts;
    part.fraction = double(part.size()) / double(n);
    part.share =
        whole.divisor.defined() ? whole.counts.weight > 0 : whole.counts.weight * part.size() / n;
    parts_.push_back(std::move(part));
  }
}

// ---- buffers

Batch BatchBuffers::free(const Shape& x, const Shape& y) {
  CHECK(x.numel() <= most_.x.numel() && y.numel() <= most_.y.numel(), "a batch of ", x, " and ", y,
        " in a buffer for ", most_.x, " and ", most_.y);
  if (place_.x.defined() && place_.x.shape() == x) return place_;
  const auto found = std::ranges::find_if(buffers_, is_free);
  const Batch& buffer = found == buffers_.end() ? add() : *found;
  Batch batch = {buffer.x.view(x, strides_of(x, most_.format), 0),
                 buffer.y.view(y, strides_of(y), 0)};
  if (most_.lengths) batch.lengths = buffer.lengths.view({x[0]}, {1}, 0);
  batch.divisor = buffer.divisor;
  return batch;
}

bool BatchBuffers::is_free(const Batch& buffer) {
  bool free = true;
  buffer.each([&](const Tensor& t) { free = free && t.storage()->references() == 1; });
  return free;
}

Batch& BatchBuffers::add() {
  Batch& buffer = buffers_.emplace_back();
  buffer.x = make_(most_.x, most_.x_dtype);
  buffer.y = make_(most_.y, most_.y_dtype);
  if (most_.lengths) buffer.lengths = make_({most_.rows}, DType::i64);
  if (most_.divisor) buffer.divisor = make_({}, DType::f32);
  return buffer;
}

}  // namespace bellows
