// The verb `bench`: measures one part alone.
#include "labs/bench/bench.h"
#include <fmt/format.h>
#include <omp.h>
#include "core/base/output.h"
#include "core/base/words.h"
#include "core/config/hint.h"
#include "core/device/allocator.h"
#include "core/device/device_info.h"
#include "core/device/threads.h"
#include "core/device/topology.h"

namespace bellows {

void add_device_option(CommandLine& line, std::string& device) {
  line.add_option("--device", device, "auto takes a GPU if there is one")
      .one_of({"auto", "cpu", "cuda"});
}

Device start_bench(const std::string& device) {
  const bool gpu = device == "cuda" || (device == "auto" && device_count(Device::cuda) > 0);
  const std::string trouble = gpu ? why_no_device(Device::cuda) : "";
  if (!trouble.empty()) fail(Exit::usage, "device cuda: ", trouble);
  apply({.budget = true});
  const Device chosen = gpu ? Device::cuda : Device::cpu;
  configure_allocator(chosen, {.caching = true});
  return chosen;
}

std::string device_text(Device device) {
  if (device == Device::cuda) {
    const CudaReport report = cuda_report();
    return report.gpus.empty() ? "cuda" : "cuda: " + report.gpu().name;
  }
  return cat("cpu: ", cpu_model(), ", ", count_of(omp_get_max_threads(), "thread"));
}

static std::string three_digits(double value) {
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}", value, decimals);
}

std::string time_text(double seconds) {
  const double ns = seconds * 1e9;
  if (ns <= 0) return "lost in noise";  // a difference of two times
  if (ns < 1e3) return three_digits(ns) + " ns";
  if (ns < 1e6) return three_digits(ns / 1e3) + " us";
  if (ns < 1e9) return three_digits(ns / 1e6) + " ms";
  return three_digits(seconds) + " s";
}

std::string rate_text(double per_second, const char* unit) {
  const bool tera = per_second >= 1e12;
  return fmt::format("{} {}{}", three_digits(per_second / (tera ? 1e12 : 1e9)), tera ? "T" : "G",
                     unit);
}

std::string size_text(int64_t bytes) {
  return bytes < 1 << 20 ? cat(bytes >> 10, " KiB") : cat(bytes >> 20, " MiB");
}

static void print_benches() {
  say("trainer bench NAME [options]   measures one part alone");
  say("");
  for (const auto& [name, bench] : benches()) say(fmt::format("  {:10}{}", name, bench.help));
  say_part(
      "\ntrainer bench NAME --help   prints its options\n"
      "\nExample:\n  trainer bench matmul --source-table\n");
}

static int run_bench(CommandLine&, const Arguments& args) {
  if (args.empty() || args[0] == "--help" || args[0] == "-h") {
    print_benches();
    return args.empty() ? static_cast<int>(Exit::usage) : 0;
  }
  std::vector<std::string> names;
  for (const auto& [name, bench] : benches()) names.push_back(name);
  const auto found = benches().find(args[0]);
  CHECK(found != benches().end(), "bench: unknown benchmark ", on_one_line(args[0]),
        ", the nearest one is '", nearest(args[0], names),
        "'; trainer bench --help  lists them all");
  return run_verb(found->second, {args.begin() + 1, args.end()}, "trainer bench");
}

static const AddVerb bench_verb({"bench",
                                 "measures one part alone: matmul, an op, dispatch, the loader",
                                 "trainer bench matmul --source-table", run_bench});

}  // namespace bellows
