#include "data/loader/batch_maker.h"
#include <chrono>
#include <thread>
#include "core/base/trace.h"
#include "core/config/visitor.h"
#include "core/tensor/pinned.h"

namespace bellows {

void visit(Visitor& v, BatchOptions& o) {
  v("augment", o.augment, "random transforms are random; off: as in evaluation");
  v("on_damaged", o.on_damaged, {"error", "skip"},
    "a sample that cannot be read ends the run; skip: all are tried before training, and the "
    "damaged ones are left out");
  v("max_pixels", o.max_pixels, "largest image that is decoded, in pixels",
    {.min = 1, .max = 1e10});
  v("scaled_decode", o.scaled_decode,
    "decode only the part of a JPEG that is used, at a fraction of its size if that is enough");
  v("channels_last", o.channels_last, "memory format of batches is NHWC, not NCHW");
  v("pin_memory", o.pin_memory, "batches are made in page-locked memory, for a GPU to fetch");
  v("sim_latency_us", o.sim_latency_us, "sleep this long for each batch: a planted slow disk",
    {.min = 0, .max = 1e9});
}

Shape BatchSource::batch_shape() const {
  return with_rows(std::min(batch_size, dataset->size()), transforms.made_shape());
}

static Tensor pageable(const Shape& shape, DType dtype) { return Tensor(shape, dtype); }

BatchMaker::BatchMaker(std::shared_ptr<const BatchSource> source)
    : source_(std::move(source)),
      buffers_(source_->batch_shape(), source_->transforms.dtype(), source_->format,
               source_->options.pin_memory ? pinned : pageable) {}

std::string BatchMaker::at_work_on() const {
  const int64_t sample = sample_.load(std::memory_order_relaxed);
  if (sample < 0) return "has not begun a sample";
  return cat("is at ", name_of_sample(*source_->dataset, sample));
}

Sample BatchMaker::read(int64_t sample, int64_t epoch) {
  const BatchSource& from = *source_;
  const ViewOf wanted = [&](const Shape& image) {
    return from.transforms.plan(image, from.seed, epoch, sample).view();
  };
  return from.options.scaled_decode ? from.dataset->at_least(sample, wanted, scratch_)
                                    : from.dataset->at(sample, scratch_);
}

// Reads and transforms a sample into row i of the batch.
void BatchMaker::fill(int64_t sample, int64_t epoch, const Batch& to, int64_t i) {
  const BatchSource& from = *source_;
  sample_.store(sample, std::memory_order_relaxed);
  at_sample(*from.dataset, sample, from.options.on_damaged, [&] {
    const Sample made = read(sample, epoch);
    const int64_t at = i * to.x.strides()[0];
    if (to.x.dtype() == DType::u8)
      from.transforms.write(made, from.seed, epoch, sample, to.x.ptr<uint8_t>() + at);
    else
      from.transforms.write(made, from.seed, epoch, sample, to.x.ptr<float>() + at, from.format);
    to.y.ptr<int64_t>()[i] = made.label;
  });
}

Batch BatchMaker::fill_all(std::span<const int64_t> samples, int64_t epoch) {
  Batch batch = buffers_.free(with_rows(std::ssize(samples), source_->transforms.made_shape()));
  batch.x.raise_version();
  batch.y.raise_version();
  for (size_t i = 0; i < samples.size(); ++i) fill(samples[i], epoch, batch, int64_t(i));
  return batch;
}

BatchResult BatchMaker::make(std::span<const int64_t> samples, int64_t epoch) {
  const trace::Range range("make_batch");
  const int64_t begin = trace::now_ns();
  if (source_->options.sim_latency_us)
    std::this_thread::sleep_for(std::chrono::microseconds(source_->options.sim_latency_us));
  try {
    BatchResult made = {fill_all(samples, epoch), nullptr};
    source_->time->ns += trace::now_ns() - begin;
    ++source_->time->batches;
    return made;
  } catch (...) {
    return {{}, std::current_exception()};
  }
}

}  // namespace bellows
