#include "data/loader/batch_maker.h"
#include <chrono>
#include <thread>
#include "core/tensor/pinned.h"

namespace bellows {

Shape BatchSource::batch_shape() const { return with_rows(batch_size, transforms.made_shape()); }

static Tensor pageable(const Shape& shape, DType dtype) { return Tensor(shape, dtype); }

BatchMaker::BatchMaker(std::shared_ptr<const BatchSource> source)
    : source_(std::move(source)),
      buffers_(source_->batch_shape(), source_->transforms.dtype(), source_->format,
               source_->pin_memory ? pinned : pageable) {}

std::string BatchMaker::at_work_on() const {
  return name_of_sample(*source_->dataset, sample_.load(std::memory_order_relaxed));
}

Sample BatchMaker::read(int64_t sample, int64_t epoch) {
  const BatchSource& from = *source_;
  const ViewOf wanted = [&](const Shape& picture) {
    return from.transforms.plan(picture, from.seed, epoch, sample).view();
  };
  return read_undamaged(*from.dataset, sample, from.on_damaged, [&](int64_t i) {
    return from.scaled_decode ? from.dataset->at_least(i, wanted, scratch_)
                              : from.dataset->at(i, scratch_);
  });
}

// Reads and transforms a sample into row i of the batch.
void BatchMaker::fill(int64_t sample, int64_t epoch, const Batch& to, int64_t i) {
  const BatchSource& from = *source_;
  sample_.store(sample, std::memory_order_relaxed);
  at_sample(*from.dataset, sample, [&] {
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
  Batch batch =
      buffers_.free(with_rows(std::ssize(samples), source_->transforms.made_shape(epoch)));
  batch.x.raise_version();
  batch.y.raise_version();
  for (size_t i = 0; i < samples.size(); ++i) fill(samples[i], epoch, batch, int64_t(i));
  return batch;
}

Made BatchMaker::make(std::span<const int64_t> samples, int64_t epoch) {
  if (source_->sim_latency_us)
    std::this_thread::sleep_for(std::chrono::microseconds(source_->sim_latency_us));
  try {
    return {fill_all(samples, epoch), nullptr};
  } catch (...) {
    return {{}, std::current_exception()};
  }
}

}  // namespace bellows
