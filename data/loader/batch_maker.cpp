#include "data/loader/batch_maker.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include "core/base/philox.h"
#include "core/base/round.h"
#include "core/base/trace.h"
#include "core/config/visitor.h"
#include "core/tensor/foreach.h"
#include "core/tensor/pinned.h"

namespace bellows {

void visit(Visitor& v, BatchOptions& o) {
  v("augment", o.augment, "random transforms are random; off: as in evaluation");
  v("on_damaged", o.on_damaged, {"error", "skip"},
    "a sample that cannot be read ends the run; skip: all are tried before training, and the "
    "damaged ones are left out")
      .resumable();
  v("max_pixels", o.max_pixels, "largest image that is decoded, in pixels", {.min = 1, .max = 1e10})
      .resumable();
  v("scaled_decode", o.scaled_decode,
    "decode only the part of a JPEG that is used, at a fraction of its size if that is enough");
  v("channels_last", o.channels_last, "memory format of batches is NHWC, not NCHW");
  v("pin_memory", o.pin_memory, "batches are made in page-locked memory, for a GPU to fetch");
  v.list("pad_to", o.pad_to,
         "pad samples of varying length to a multiple of this, or to the next of several lengths",
         {.min = 1, .max = 1 << 24});
  v.require("pad_to", std::ranges::is_sorted(o.pad_to), "must ascend");
  v("sim_latency_us", o.sim_latency_us, "sleep this long for each batch: a planted slow disk",
    {.min = 0, .max = 1e9})
      .resumable();
  v("sim_jitter", o.sim_jitter, {"none", "uniform", "exponential"},
    "distribution of planted loading times around their mean")
      .resumable();
  v.list("sim_slow", o.sim_slow,
         "share of batches whose planted loading is slow, and how many times as long it takes, as "
         "in [0.05, 20]",
         {.min = 0, .max = 1e6})
      .resumable();
  const auto& slow = o.sim_slow;
  v.require("sim_slow", slow.empty() || (slow.size() == 2 && slow[0] <= 1),
            "must be a share up to 1 and a factor, as in [0.05, 20]");
}

int64_t planted_us(const BatchOptions& o, uint64_t seed, int64_t epoch, int64_t batch) {
  constexpr uint64_t kSite = 0x5ca1ab1e;  // separates these random values from those of data sets
  const Philox random(
      {.seed = seed, .purpose = Purpose::dataset, .site = kSite, .step = uint64_t(epoch)});
  const double u = random.uniform(2 * batch);
  double us = double(o.sim_latency_us);
  if (o.sim_jitter == Jitter::uniform) us *= 2 * u;
  if (o.sim_jitter == Jitter::exponential) us *= -std::log1p(-u);
  if (!o.sim_slow.empty() && random.uniform(2 * batch + 1) < o.sim_slow[0]) us *= o.sim_slow[1];
  return std::llround(us);
}

int64_t BatchSource::padded(int64_t length) const {
  const std::vector<int64_t>& to = options.pad_to;
  if (to.empty()) return length;
  const int64_t longest = dataset->info().input.shape[0];
  if (to.size() == 1) return std::min(round_up(length, to[0]), longest);
  const auto bound = std::ranges::lower_bound(to, length);
  return bound == to.end() ? longest : std::min(*bound, longest);
}

BatchForm BatchSource::form(int64_t rows, int64_t length) const {
  const DatasetInfo& info = dataset->info();
  Shape x = transforms.made_shape(), y = info.target.shape;
  if (info.input.varies) x[0] = length;
  if (info.target.varies) y[0] = length;
  return {.rows = rows,
          .x = with_rows(rows, x),
          .y = with_rows(rows, y),
          .x_dtype = transforms.dtype(),
          .y_dtype = info.target.dtype,
          .format = format,
          .lengths = info.input.varies,
          .divisor = dataset->arrays() && dataset->arrays()->targets.defined()};
}

BatchForm BatchSource::largest() const {
  const DatasetInfo& info = dataset->info();
  const int64_t rows = sampler.largest(), longest = info.input.varies ? info.input.shape[0] : 0;
  if (sampler.length_buckets() != LengthBuckets::tokens) return form(rows, longest);
  const int64_t area = sampler.largest_area([this](int64_t length) { return padded(length); });
  BatchForm most = form(ceil_div(area, longest), longest);
  most.rows = rows;
  if (!info.target.varies) most.y[0] = rows;
  return most;
}

// Returns the greatest length of the samples; 0 if none varies.
int64_t BatchSource::longest_of(const Tensor& samples) const {
  int64_t longest = 0;
  if (dataset->info().input.varies)
    for (const int64_t i : samples.data<int64_t>())
      longest = std::max(longest, dataset->arrays()->lengths.data<int64_t>()[i]);
  return longest;
}

static int64_t sum_of(const Tensor& counts, const Tensor& samples, int64_t otherwise) {
  if (!counts.defined()) return otherwise * samples.numel();
  int64_t sum = 0;
  for (const int64_t i : samples.data<int64_t>()) sum += counts.ptr<int64_t>()[i];
  return sum;
}

static double imbalance(const Sampler& sampler, const Tensor& lengths, const EpochPlan& plan,
                        int64_t batch) {
  double most = 0, least = INFINITY;
  for (int rank = 0; rank < sampler.share().world; ++rank) {
    const auto sum = double(sum_of(lengths, sampler.samples(plan, batch, rank), 0));
    most = std::max(most, sum), least = std::min(least, sum);
  }
  return most / least;
}

BatchCounts BatchSource::counts(const EpochPlan& plan, int64_t batch) const {
  const Tensor samples = sampler.samples(plan, batch), joint = sampler.joint(plan, batch);
  const DatasetInfo& info = dataset->info();
  const int64_t targets = info.classes ? info.target.shape.numel() : 1;
  const Arrays none, &arrays = dataset->arrays() ? *dataset->arrays() : none;
  BatchCounts counts{.targets = sum_of(arrays.targets, samples, targets),
                     .units = sum_of(arrays.lengths, joint, info.units),
                     .fewest = sampler.fewest(batch),
                     .weight = sampler.weight(batch)};
  if (arrays.targets.defined())
    counts.divisor =
        double(std::max<int64_t>(1, sum_of(arrays.targets, joint, 0))) / sampler.share().world;
  if (arrays.lengths.defined()) {
    counts.positions = samples.numel() * padded(longest_of(samples));
    counts.padding = counts.positions - sum_of(arrays.lengths, samples, 0);
    counts.imbalance = imbalance(sampler, arrays.lengths, plan, batch);
  }
  return counts;
}

Batch BatchSource::take(BatchBuffers& buffers, const EpochPlan& plan, int64_t batch) const {
  const Tensor samples = sampler.samples(plan, batch);
  const BatchForm shapes = form(samples.numel(), padded(longest_of(samples)));
  Batch taken = buffers.free(shapes.x, shapes.y);
  taken.each([](const Tensor& t) { t.raise_version(); });
  taken.counts = counts(plan, batch);
  if (taken.divisor.defined()) bellows::fill(taken.divisor, taken.counts.divisor);
  return taken;
}

// ---- making

void collate(const Arrays& arrays, const Tensor& samples, bool varies, const Batch& batch) {
  const double left_out = batch.y.dtype() == DType::i64 ? -1 : 0;
  kernels::collate(batch.x, arrays.x, arrays.offsets, samples, 0);
  kernels::collate(batch.y, arrays.y, varies ? arrays.offsets : Tensor(), samples, left_out);
  if (batch.lengths.defined())
    kernels::collate(batch.lengths, arrays.lengths, Tensor(), samples, 0);
}

static Tensor pageable(const Shape& shape, DType dtype) { return Tensor(shape, dtype); }

BatchMaker::BatchMaker(std::shared_ptr<const BatchSource> source)
    : source_(std::move(source)),
      buffers_(source_->largest(), source_->options.pin_memory ? pinned : pageable) {}

std::string BatchMaker::at_work_on() const {
  const int64_t sample = sample_.load(std::memory_order_relaxed);
  if (sample < 0) return "has not begun a sample";
  return cat("is at ", name_of_sample(*source_->dataset, sample));
}

// Reads and transforms a sample into row i of the batch.
void BatchMaker::fill(int64_t sample, int64_t epoch, const Batch& to, int64_t i) {
  const BatchSource& from = *source_;
  sample_.store(sample, std::memory_order_relaxed);
  const auto view = [&](const Shape& image) {
    return from.transforms.plan(image, from.seed, epoch, sample).view();
  };
  at_sample(*from.dataset, sample, from.options.on_damaged, [&] {
    const ViewOf wanted = from.options.scaled_decode ? ViewOf(view) : ViewOf();
    const Sample made = from.dataset->at_least(sample, wanted, scratch_);
    const int64_t at = i * to.x.strides()[0];
    if (to.x.dtype() == DType::u8)
      from.transforms.write(made, from.seed, epoch, sample, to.x.ptr<uint8_t>() + at);
    else
      from.transforms.write(made, from.seed, epoch, sample, to.x.ptr<float>() + at, from.format);
    to.y.ptr<int64_t>()[i] = made.label;
  });
}

// Sleeps for this long in parts, because `ab` stops a process between its blocks, and a sleep ends
// while the process is stopped: not the whole batch comes for nothing then, but a part at most.
static void sleep_planted(int64_t us) {
  const int64_t part = std::max<int64_t>(us / 16, 1000);
  while (us > 0) {
    const int64_t begin = trace::now_ns();
    std::this_thread::sleep_for(std::chrono::microseconds(std::min(us, part)));
    us -= std::min((trace::now_ns() - begin) / 1000, 2 * part);
  }
}

BatchResult BatchMaker::make(const EpochPlan& plan, int64_t batch, int64_t epoch) {
  const trace::Range range("make_batch");
  const int64_t begin = trace::now_ns();
  if (source_->options.sim_latency_us)
    sleep_planted(planted_us(source_->options, source_->seed, epoch, batch));
  try {
    BatchResult made = {source_->take(buffers_, plan, batch), nullptr};
    const Tensor samples = source_->sampler.samples(plan, batch);
    if (const Arrays* const arrays = source_->dataset->arrays())
      collate(*arrays, samples, source_->dataset->info().target.varies, made.batch);
    else
      for (int64_t i = 0; i < samples.numel(); ++i)
        fill(samples.ptr<int64_t>()[i], epoch, made.batch, i);
    source_->time->ns += trace::now_ns() - begin;
    ++source_->time->batches;
    return made;
  } catch (...) {
    return {{}, std::current_exception()};
  }
}

}  // namespace bellows
