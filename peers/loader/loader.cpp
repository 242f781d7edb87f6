// bench_loader: throughput of the data loader, without a model.
//
//   bench_loader --dataset mnist --root ../shared/data/mnist --workers 2
//     samples per second of normalized batches, as a JSON line like peers/torch/torch_loader.py's
//   bench_loader --dataset image_folder --root photos --transform random_resized_crop
//   --scaled-decode
//     the same for JPEG files; --crop N resizes each crop to N x N
#include "data/loader/loader.h"
#include <fmt/format.h>
#include <algorithm>
#include "core/base/statistics.h"
#include "core/base/trace.h"
#include "core/config/visitor.h"
#include "core/device/timer.h"
#include "trainer/verbs/command_line.h"

using namespace bellows;

namespace {

struct LoaderArguments {
  std::string dataset = "digits", root;
  Arguments transforms;
  LoaderOptions loader;
  int64_t epochs = 5, crop = 0;
  bool rings = false;
};

// Sets the options of an entry whose keys are in `keys`, if it has any, to `value`.
class Give : public Visitor {
 public:
  Give(Names keys, std::string value) : keys_(std::move(keys)), value_(std::move(value)) {}

 protected:
  void option(const std::string& key, const Option& option, const char*) override {
    if (std::ranges::count(keys_, key) && !value_.empty()) option.read(value_);
  }
  std::optional<size_t> list_size(const std::string&, size_t, const char*) override { return {}; }

 private:
  Names keys_;
  std::string value_;
};

DatasetPtr open(const LoaderArguments& a) {
  DatasetChoice choice(a.dataset);
  Give root({"root", "folder"}, a.root);
  choice.visit_options(root);
  return choice.make({Split::train});
}

std::vector<TransformChoice> transforms(const LoaderArguments& a) {
  std::vector<TransformChoice> list(a.transforms.begin(), a.transforms.end());
  Give size({"size"}, a.crop ? std::to_string(a.crop) : "");
  for (TransformChoice& transform : list) transform.visit_options(size);
  return list;
}

struct Rates {
  double samples_per_s, samples_per_cpu_s;
};

Rates measure_epoch(Loader& loader, int64_t epoch) {
  const int64_t begin = time_ns(Clock::wall), begin_cpu = time_ns(Clock::cpu);
  loader.start(epoch);
  for (Batch batch; loader.next(batch);) {
  }
  return {double(loader.samples()) / seconds_since(begin),
          double(loader.samples()) / seconds_since(begin_cpu, Clock::cpu)};
}

void measure_throughput(const LoaderArguments& a) {
  Loader loader(open(a), transforms(a), a.loader, 1);
  measure_epoch(loader, 0);
  std::vector<double> rates, cpu_rates;
  const trace::Counter& opens = trace::counter("data.file_opens");
  const int64_t opens_before = opens.value();
  for (int64_t epoch = 1; epoch <= a.epochs; ++epoch) {
    const Rates r = measure_epoch(loader, epoch);
    rates.push_back(r.samples_per_s);
    cpu_rates.push_back(r.samples_per_cpu_s);
  }
  fmt::print(
      "{{\"bench\": \"loader\", \"dataset\": \"{}\", \"workers\": {}, \"prefetch\": {}, "
      "\"queue\": \"{}\", \"batch\": {}, \"epochs\": {}, \"samples_per_s\": {:.0f}, "
      "\"fastest\": {:.0f}, \"samples_per_cpu_s\": {:.0f}, \"file_opens\": {}}}\n",
      a.dataset, a.loader.workers.num_workers, a.loader.workers.prefetch_factor,
      a.rings ? "rings" : "locked", a.loader.sampler.batch_size, a.epochs, median(rates),
      *std::ranges::max_element(rates), median(cpu_rates),
      (opens.value() - opens_before) / a.epochs);
}

int run(const Arguments& args) {
  CommandLine line("bench_loader", "throughput of the loader", "bench_loader --workers 2");
  LoaderArguments a;
  line.add_option("--dataset", a.dataset, "a registered data set");
  line.add_option("--root", a.root, "its folder");
  line.add_option("--transform", a.transforms, "one or several, in their order");
  line.add_option("--crop", a.crop, "side of the square that they make of each image");
  line.add_flag("--scaled-decode", a.loader.batch.scaled_decode,
                "of a JPEG only what the crop needs");
  line.add_option("--workers", a.loader.workers.num_workers, "loader threads");
  line.add_option("--prefetch", a.loader.workers.prefetch_factor, "batches that each keeps ready");
  line.add_option("--batch", a.loader.sampler.batch_size, "samples");
  line.add_option("--epochs", a.epochs, "measured ones; the median counts");
  line.add_flag("--rings", a.rings, "a ring for each worker, not one locked queue");
  if (!line.read(args)) return 0;
  a.loader.workers.queue = a.rings ? QueueKind::rings : QueueKind::locked;
  a.loader.workers.persistent_workers = true;
  measure_throughput(a);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const Error& error) {
    fmt::print(stderr, "bench_loader: {}\n", error.what());
    return static_cast<int>(error.exit);
  }
}
