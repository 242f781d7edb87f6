// trainer bench busy: a core that is 100 % busy may do almost no work. Utilization only says that
// something ran.
#include <fmt/format.h>
#include <omp.h>
#include "core/base/output.h"
#include "core/device/timer.h"
#include "labs/bench/bench.h"
#include "labs/bench/product.h"
#include "trainer/verbs/tables.h"

namespace bellows {

namespace {
struct CoreLoad {
  double busy = 0;  // CPU time per wall time, as top and /proc count it
  double flop_per_s = 0;
};
}  // namespace

// work() returns its number of floating-point operations.
static CoreLoad measure_load(double seconds, const auto& work) {
  const int64_t begin = time_ns(Clock::wall), begin_cpu = time_ns(Clock::cpu);
  double flop = 0;
  do flop += work();
  while (seconds_since(begin) < seconds);
  const double wall = seconds_since(begin);
  return {seconds_since(begin_cpu, Clock::cpu) / wall, flop / wall};
}

// Each addition waits for the one before it, so all but one of the core's lanes are idle.
static double add_in_a_chain() {
  constexpr int kAdds = 1 << 16;
  static volatile float kept = 0;  // keeps the compiler from dropping the sum
  float sum = kept;
  const float step = kept + 1;
  for (int i = 0; i < kAdds; ++i) sum += step;  // floats are added in this order, one by one
  kept = sum * 0;
  return kAdds;
}

static int run_busy(CommandLine& line, const Arguments& args) {
  double seconds = 1;
  line.add_option("--seconds", seconds, "time of each row").positive().shows_default();
  line.add_note(
      "On the CPU only. A GPU's utilization misleads in the same way: it reports that some kernel "
      "ran, even if that kernel has one block.");
  if (!line.read(args)) return 0;
  start_bench("cpu");
  omp_set_num_threads(1);
  const Product product(precisions(Device::cpu)[0], {384, 384}, {384, 384}, Device::cpu);
  product.run();  // the library prepares its kernel
  const CoreLoad chain = measure_load(seconds, add_in_a_chain);
  const CoreLoad full = measure_load(seconds, [&] {
    product.run();
    return product.flop();
  });
  std::vector<TableRow> rows = {{"one thread", "core busy", "GFLOP/s", "of the work"}};
  for (const auto& [name, load] :
       {std::pair("chain of additions, f32", chain), std::pair("products of 384 x 384, f32", full)})
    rows.push_back({name, fmt::format("{:.0f} %", 100 * load.busy),
                    fmt::format("{:.2f}", 1e-9 * load.flop_per_s),
                    fmt::format("{:.1f} %", 100 * load.flop_per_s / full.flop_per_s)});
  say(cat("utilization is not load, on ", device_text(Device::cpu)));
  say_part(aligned(rows, "lrrr"));
  return 0;
}

static const AddBench busy_bench({"busy", "a core that is 100 % busy beside one that also computes",
                                  "trainer bench busy --seconds 0.2", run_busy});

}  // namespace bellows
