// bench_conv: times each algorithm (oneDNN's and ours, NHWC) on each convolution of a model, one at
// a time, interleaved. These are the candidates of kernel_autotune. GFLOP/s count the formula's
// operations, 2 N OH OW K C KH KW, so an algorithm with fewer products (Winograd) may exceed the
// machine's peak. Prints Markdown.
//
//   bench_conv --model resnet18_cifar --dtype bf16 --threads 2
//   bench_conv --pass dw --only "3x3 64>64"
#include <fmt/format.h>
#include <omp.h>
#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include "core/device/allocator.h"
#include "core/device/timer.h"
#include "core/tensor/copy.h"
#include "core/tensor/rng.h"
#include "ops/conv/conv2d.h"
#include "labs/bench/product.h"
#include "labs/doctor/doctor.h"

using namespace bellows;

namespace {

struct Layer {
  int64_t count, C, side, K, kernel;
  Conv2dOptions options;
  std::string name() const {
    return fmt::format("{0}x{0} {1}>{2} at {3}{4}", kernel, C, K, side,
                       options.stride == 2 ? " by 2" : "");
  }
};
struct Net {
  int64_t batch;
  std::vector<Layer> layers;
};

Layer layer(int64_t count, int64_t C, int64_t side, int64_t K, int64_t kernel, int64_t stride = 1) {
  return {count, C, side, K, kernel, {.stride = stride, .padding = kernel / 2}};
}
const std::map<std::string, Net> kNets{
    {"resnet18_cifar",
     {64,
      {layer(1, 3, 32, 64, 3), layer(4, 64, 32, 64, 3), layer(1, 64, 32, 128, 3, 2),
       layer(1, 64, 32, 128, 1, 2), layer(3, 128, 16, 128, 3), layer(1, 128, 16, 256, 3, 2),
       layer(1, 128, 16, 256, 1, 2), layer(3, 256, 8, 256, 3), layer(1, 256, 8, 512, 3, 2),
       layer(1, 256, 8, 512, 1, 2), layer(3, 512, 4, 512, 3)}}},
    {"resnet50",
     {16, {layer(1, 3, 224, 64, 7, 2),   layer(1, 64, 56, 64, 1),        layer(3, 64, 56, 64, 3),
           layer(4, 64, 56, 256, 1),     layer(2, 256, 56, 64, 1),       layer(1, 256, 56, 128, 1),
           layer(1, 128, 56, 128, 3, 2), layer(1, 256, 56, 512, 1, 2),   layer(4, 128, 28, 512, 1),
           layer(3, 512, 28, 128, 1),    layer(3, 128, 28, 128, 3),      layer(1, 512, 28, 256, 1),
           layer(1, 256, 28, 256, 3, 2), layer(1, 512, 28, 1024, 1, 2),  layer(6, 256, 14, 1024, 1),
           layer(5, 1024, 14, 256, 1),   layer(5, 256, 14, 256, 3),      layer(1, 1024, 14, 512, 1),
           layer(1, 512, 14, 512, 3, 2), layer(1, 1024, 14, 2048, 1, 2), layer(3, 512, 7, 2048, 1),
           layer(2, 2048, 7, 512, 1),    layer(2, 512, 7, 512, 3)}}}};

struct Arguments {
  std::string model = "resnet18_cifar", dtype = "f32", pass, only;
  int threads = 1, rounds = 7;
  int64_t batch = 0;
};
Arguments parse(int argc, char** argv) {
  Arguments a;
  CLI::App app("convolutions, each by each algorithm");
  app.add_option("--model", a.model)->check(CLI::IsMember(kNets));
  app.add_option("--dtype", a.dtype)->check(CLI::IsMember({"f32", "bf16", "f16"}));
  app.add_option("--pass", a.pass)->check(CLI::IsMember({"y", "dx", "dw"}));
  app.add_option("--only", a.only, "layers whose name has this");
  app.add_option("--batch", a.batch);
  app.add_option("--threads", a.threads);
  app.add_option("--rounds", a.rounds);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return a;
}

Tensor random(const Shape& shape, DType dtype, const MemoryFormat& format = kNHWC) {
  const Tensor t(shape, DType::f32);
  fill_normal(t, 0, 1, {});
  return contiguous(cast(t, dtype), format);
}

// One pass of a layer. call() uses the current KernelOptions' algorithm.
struct Pass {
  const char* name;
  const KernelRecord* kernel;
  std::function<void()> call;
};
std::vector<Pass> passes_of(const Layer& l, int64_t batch, DType dtype) {
  const Tensor x = random({batch, l.C, l.side, l.side}, dtype);
  const Tensor w = random({l.K, l.C, l.kernel, l.kernel}, dtype, kNCHW), dw = empty_like(w);
  const Tensor dy = random(conv2d_shape("conv2d", x.shape(), w.shape(), l.options), dtype);
  const auto record = [](const char* name) {
    return *std::ranges::find_if(kernel_records(), [&](const KernelRecord* kernel) {
      return std::string_view(kernel->name) == name;
    });
  };
  const auto o = l.options;
  Slot slot;
  return {{"y", record("conv2d"), [=]() mutable { kernels::conv2d(x, w, Tensor(), o, slot); }},
          {"dx", record("conv2d_backward_x"),
           [=]() mutable { kernels::conv2d_backward_x(dy, w, x.shape(), o, slot); }},
          {"dw", record("conv2d_backward_w"),
           [=]() mutable { kernels::conv2d_backward_w(dy, x, dw, Tensor(), o, slot); }}};
}

// Returns oneDNN ("vendor") and the algorithms that fit. An algorithm that does not fit shows as a
// run of the plain kernel.
std::vector<const char*> contestants(const Pass& pass) {
  std::vector<const char*> names{"vendor"};
  for (const char* name : pass.kernel->algorithms[int(Device::cpu)]) {
    if (!name || std::string_view(name) == "direct") continue;  // made for few channels
    const Kernels use({.algorithm = name});
    const int64_t before = pass.kernel->runs[int(Device::cpu)];
    pass.call();
    if (pass.kernel->runs[int(Device::cpu)] == before) names.push_back(name);
  }
  return names;
}

// With one thread the process's CPU time, which other load distorts less.
Interleaving rounds_of(const Arguments& a, int rounds) {
  return {.rounds = rounds, .slice_s = 0, .clock = a.threads == 1 ? Clock::cpu : Clock::wall};
}

// Seconds of a call for each algorithm, interleaved: minimum CPU time with one thread, else median
// wall time.
std::vector<double> seconds(const Pass& pass, const std::vector<const char*>& names,
                            const Arguments& a) {
  std::vector<std::function<void()>> calls;
  for (const char* name : names)
    calls.emplace_back([&pass, name] {
      const Kernels use({.vendor = true, .algorithm = name});
      pass.call();
    });
  std::vector<double> all;
  for (const Timing& timing : time_interleaved(calls, Device::cpu, rounds_of(a, a.rounds)))
    all.push_back(a.threads == 1 ? timing.fastest() : timing.median());
  return all;
}

}  // namespace

static double best_s(const Arguments& a, const std::function<void()>& call) {
  return time_interleaved({call}, Device::cpu, rounds_of(a, 3 * a.rounds))[0].fastest();
}

// FLOP/s that this machine reaches now in this dtype: f32 from multiply-adds in registers, 16 bits
// from oneDNN's 1024^3 product.
static double peak(const Arguments& a, DType dtype) {
  if (!is_low(dtype)) return fma_rate(dtype);
  const Product product({.name = "", .dtype = dtype}, {1024, 1024}, {1024, 1024}, Device::cpu);
  return product.flop() / best_s(a, [&] { product.run(); });
}

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv);
  omp_set_num_threads(a.threads);
  configure_allocator(Device::cpu, {.caching = true, .huge_pages = true});
  const Net& net = kNets.at(a.model);
  const int64_t batch = a.batch ? a.batch : net.batch;
  const DType dtype = a.dtype == "f32" ? DType::f32 : a.dtype == "bf16" ? DType::bf16 : DType::f16;
  const double most = peak(a, dtype);
  fmt::print("{}, batch {}, {}, threads: {}; {}; peak {:.0f} GFLOP/s\n\n", a.model, batch, a.dtype,
             a.threads, a.threads == 1 ? "least CPU time" : "median wall time", most * 1e-9);
  fmt::print(
      "| layer | pass | by | ms | GFLOP/s | share of peak | oneDNN's time over its |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n");
  std::map<std::string, std::pair<double, double>> sums;  // by pass: oneDNN, fastest algorithm
  for (const Layer& l : net.layers) {
    if (l.name().find(a.only) == std::string::npos) continue;
    for (const Pass& pass : passes_of(l, batch, dtype)) {
      if (!a.pass.empty() && a.pass != pass.name) continue;
      const std::vector<const char*> names = contestants(pass);
      const std::vector<double> times = seconds(pass, names, a);
      const int64_t side = l.side / l.options.stride;
      const int64_t products = l.C * l.K * l.kernel * l.kernel;
      const double flop = 2 * double(batch) * double(side * side) * double(products);
      for (size_t i = 0; i < names.size(); ++i)
        fmt::print("| {} x {} | {} | {} | {:.2f} | {:.0f} | {:.2f} | {:.2f} |\n", l.count, l.name(),
                   pass.name, names[i], times[i] * 1e3, flop / times[i] * 1e-9,
                   flop / times[i] / most, times[0] / times[i]);
      std::fflush(stdout);
      sums[pass.name].first += double(l.count) * times[0];
      sums[pass.name].second += double(l.count) * *std::ranges::min_element(times);
    }
  }
  fmt::print("\n");
  for (const auto& [pass, sum] : sums)
    fmt::print("- all {}: oneDNN {:.1f} ms, the fastest {:.1f} ms, {:.2f} times as fast\n", pass,
               sum.first * 1e3, sum.second * 1e3, sum.first / sum.second);
}
