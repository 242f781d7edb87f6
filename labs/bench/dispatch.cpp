// trainer bench dispatch: overhead of an op call, measured on tensors of eight floats.
#include <fmt/format.h>
#include <omp.h>
#include <algorithm>
#include "autograd/backward.h"
#include "core/base/output.h"
#include "core/base/statistics.h"
#include "core/device/timer.h"
#include "labs/bench/bench.h"
#include "ops/elementwise.h"
#include "trainer/verbs/tables.h"

namespace bellows {

// Measures dispatch alone: the kernel does nothing.
static constinit Kernel<void(const Tensor& t)> nothing{"nothing"};
static const bool cpu = nothing.on(Device::cpu, [](const Tensor&) {});

// Measures CPU time of this process, the fastest and the median of 31 rounds, because other load on
// the machine can only add to it. On a GPU this is the host's part: work is queued, not waited for.
static std::vector<TableRow> measured_ops(Device device) {
  std::vector<TableRow> rows = {{"ns a call", "fastest", "median"}};
  const auto measure = [&](const char* what, const auto& call) {
    // Few enough on a GPU that no launch waits for space in its queue.
    const int calls = device == Device::cpu ? 5000 : 500;
    std::vector<double> ns(31);
    for (double& each : ns) {
      synchronize(current_stream(device));
      const int64_t begin = time_ns(Clock::cpu);
      for (int i = 0; i < calls; ++i) call();
      each = double(time_ns(Clock::cpu) - begin) / calls;
    }
    rows.push_back({what, fmt::format("{:.1f}", *std::ranges::min_element(ns)),
                    fmt::format("{:.1f}", median(ns))});
  };
  const Tensor a = full({8}, 1, DType::f32, device), b = full({8}, 2, a);
  const Tensor leaf = require_grad(full({8}, 1, a)), scalar = require_grad(full({}, 1, a));
  if (device == Device::cpu) measure("no-op kernel", [&] { nothing(a); });
  measure("empty({8})", [&] { empty({8}, a); });
  measure("add, no grad", [&] { add(a, b); });
  measure("add, grad", [&] { add(leaf, b); });
  measure("mul, grad (saves both inputs)", [&] { mul(leaf, b); });
  measure("relu, grad", [&] { relu(leaf); });
  measure("relu, under NoGrad", [&] {
    const NoGrad guard;
    relu(leaf);
  });
  measure("backward of one affine", [&] { backward(mul(scalar, 2)); });
  return rows;
}

static int run_dispatch(CommandLine& line, const Arguments& args) {
  std::string wanted = "auto";
  add_device_option(line, wanted);
  if (!line.read(args)) return 0;
  const Device device = start_bench(wanted);
  omp_set_num_threads(1);
  const std::vector<TableRow> rows = measured_ops(device);
  say(cat("dispatch on ", device_text(device), ": CPU time of the host"));
  say_part(aligned(rows, "lrr"));
  return 0;
}

static const AddBench dispatch_bench({"dispatch", "overhead of an op call, in ns",
                                      "taskset -c 0 trainer bench dispatch", run_dispatch});

}  // namespace bellows
