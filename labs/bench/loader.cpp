// trainer bench loader: the data path of a config on one core: samples/s, and the time per sample
// of reading, decoding and each transform.
#include "data/loader/loader.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "core/base/json.h"
#include "core/base/output.h"
#include "core/base/statistics.h"
#include "core/config/config.h"
#include "core/device/threads.h"
#include "core/device/timer.h"
#include "data/images/image_file.h"
#include "data/images/image_plan.h"
#include "data/sets/damaged.h"
#include "labs/bench/bench.h"
#include "plan/toggle.h"
#include "trainer/verbs/tables.h"

namespace bellows {

namespace {
// Samples on their way to a batch, up to some transform. As in BatchMaker, only the needed part is
// decoded, and all transforms are one pass over its pixels.
class DataPath {
 public:
  // Takes the first `least` samples of an epoch or more, or all if it has fewer.
  DataPath(const Plan& plan, Loader& loader, int64_t least)
      : plan_(plan),
        options_(plan.data.loader.batch),
        loader_(loader),
        dataset_(loader.dataset()),
        batch_(size_t(loader.source().largest().x.numel())) {
    for (const TransformChoice& choice : plan.data.transforms)
      transforms_.push_back(choice.make(dataset_.info()));
    const int64_t most = loader.samples(), batch = loader.sampler().largest();
    epoch_batches_ = most / batch;
    batches_ = std::min((least + batch - 1) / batch, epoch_batches_);
    const Tensor order = loader.sampler().order(0, Device::cpu);
    samples_.assign(order.ptr<int64_t>(), order.ptr<int64_t>() + batches_ * batch);
  }
  int64_t samples() const { return std::ssize(samples_); }

  bool has_files() const { return dataset_.encoded(samples_[0]).has_value(); }
  void read() const {
    for (const int64_t index : samples_) (void)dataset_.encoded(index);
  }
  void read_and_decode() {
    for (const int64_t index : samples_) decoded(index, 0);
  }
  void transform(size_t count) {
    size_t at = 0;  // through memory as large as a batch, because a batch is not in the L1 cache
    for (const int64_t index : samples_) {
      const Sample sample = decoded(index, count);
      const ImagePlan image = planned(sample.shape, index, count);
      const auto values = size_t(image.shape().numel());
      batch_.resize(std::max(batch_.size(), values));
      if (at + values > batch_.size()) at = 0;
      write_image(image, sample, batch_.data() + at, options_.format());
      at += values;
    }
  }
  void load() {
    if (left_ < batches_) {
      loader_.start(++epoch_);
      left_ = epoch_batches_;
    }
    Batch next;
    for (int64_t i = 0; i < batches_; ++i) loader_.next(next);
    left_ -= batches_;
  }

 private:
  ImagePlan planned(const Shape& shape, int64_t index, size_t count) const {
    ImagePlan image(shape);
    const auto mode = options_.augment ? TransformMode::training : TransformMode::evaluation;
    for (size_t i = 0; i < count; ++i)
      transforms_[i].apply(image, mode, augment_key(plan_.seed, 0, index, int(i)));
    return image;
  }
  Sample decoded(int64_t index, size_t count) {
    const ViewOf wanted = [&](const Shape& image) { return planned(image, index, count).view(); };
    Sample sample;
    at_sample(dataset_, index, {}, [&] {
      sample = options_.scaled_decode ? dataset_.at_least(index, wanted, scratch_)
                                      : dataset_.at(index, scratch_);
    });
    return sample;
  }

  const Plan& plan_;
  const BatchOptions& options_;
  Loader& loader_;
  const Dataset& dataset_;
  std::vector<int64_t> samples_;
  int64_t batches_ = 0, epoch_batches_ = 0;  // batches in samples_, and in an epoch
  int64_t epoch_ = -1, left_ = 0;            // left_: batches of epoch_ still to come
  std::vector<Transform> transforms_;
  Scratch scratch_;
  std::vector<float> batch_;
};
}  // namespace

// Returns the plan of the host's part on one core: no workers, no planted latency, all transforms.
static Plan on_one_core(Plan plan) {
  LoaderOptions& o = plan.data.loader;
  o.workers.num_workers = o.batch.sim_latency_us = 0;
  o.batch.pin_memory = o.feed.device_augment = false;
  plan.threads = {.threads = 1};
  return plan;
}

static void print(const std::vector<std::string>& names, const std::vector<Timing>& times,
                  int64_t samples) {
  const double n = double(samples), whole = times.back().median() / n;
  std::vector<TableRow> rows = {{"", "ns per sample", "share"}};
  double before = 0;
  const auto add = [&](const std::string& name, double seconds) {
    rows.push_back({name, fmt::format("{:.0f}", 1e9 * seconds),
                    fmt::format("{:.1f} %", 100 * seconds / whole)});
  };
  for (size_t i = 0; i < names.size(); ++i) {
    const double now = times[i].median() / n;
    add(names[i], now - std::exchange(before, now));
  }
  add("sum", before);
  add("loader", whole);
  say_part(aligned(rows, "lrr"));
  say(fmt::format("{:.0f} samples/s on one core", 1 / whole));
}

// Measures whole epochs of the config, after one that starts workers and fills the page cache.
static Json measured_epochs(const Plan& plan, Loader& loader, int64_t epochs) {
  std::vector<double> rates, cpu_rates;
  for (int64_t epoch = 0; epoch <= epochs; ++epoch) {
    const int64_t begin = time_ns(Clock::wall), begin_cpu = time_ns(Clock::cpu);
    loader.start(epoch);
    for (Batch batch; loader.next(batch);) {
    }
    if (epoch == 0) continue;
    rates.push_back(double(loader.samples()) / seconds_since(begin));
    cpu_rates.push_back(double(loader.samples()) / seconds_since(begin_cpu, Clock::cpu));
  }
  return {{"name", "bellows"},
          {"dataset", plan.data.dataset.name()},
          {"samples_per_s", median(rates)},
          {"samples_per_cpu_s", median(cpu_rates)}};
}

static int run_loader(CommandLine& line, const Arguments& args) {
  std::string config;
  int64_t least = 64, epochs = 0;
  Arguments overrides;
  line.add_config(config, overrides);
  line.add_option("--samples", least, "samples to time, rounded up to whole batches")
      .range(1, 1000000)
      .shows_default();
  line.add_option("--epochs", epochs,
                  "time so many whole epochs with the workers of the config, and print one JSON "
                  "object: samples per second, and per second of CPU time")
      .range(0, 1000);
  line.add_note(
      "Times the path up to each step, and prints by how much it is longer than up to the one "
      "before. All transforms are one pass over the pixels, so the first one includes writing "
      "them, and one that leaves fewer pixels to those before it may take less than no time. "
      "The loader also makes the order, names samples for errors and copies labels. "
      "Files come from the page cache after the first round.");
  if (!line.read(args)) return 0;
  Plan plan = make_config(read_sources(config, overrides)).plan;
  if (epochs == 0) plan = on_one_core(plan);
  apply(plan.threads);
  most_pixels() = plan.data.loader.batch.max_pixels;
  const DatasetPtr set =
      without_damaged(plan.data.dataset.make({Split::train}), plan.data.loader.batch.on_damaged);
  Loader loader(set, plan.data.transforms, plan.data.loader, plan.seed);
  if (epochs) return say(to_line(measured_epochs(plan, loader, epochs))), 0;
  DataPath path(plan, loader, least);
  std::vector<std::string> names;
  std::vector<std::function<void()>> calls;
  const auto add = [&](const std::string& name, const std::function<void()>& call) {
    names.push_back(name);
    calls.push_back(call);
  };
  if (path.has_files()) add("reading", [&] { path.read(); });
  add(names.empty() ? "reading" : "decoding", [&] { path.read_and_decode(); });
  for (size_t i = 0; i < plan.data.transforms.size(); ++i)
    add(plan.data.transforms[i].name(), [&, i] { path.transform(i + 1); });
  calls.emplace_back([&] { path.load(); });
  const std::vector<Timing> times = time_interleaved(calls, Device::cpu);
  say(cat(plan.name, ": ", plan.data.dataset.name(), ", ", path.samples(), " samples, on ",
          cpu_model()));
  print(names, times, path.samples());
  return 0;
}

static const AddBench loader_bench({"loader",
                                    "times reading, decoding and each transform on one core",
                                    "trainer bench loader --config configs/lenet.yaml",
                                    run_loader});

}  // namespace bellows
