// trainer bench matmul: products in every precision of a device; the seed's table of a V100 beside
// them; and what alignment is worth.
#include <fmt/format.h>
#include "trainer/bench/alignment.h"
#include "trainer/bench/bench.h"
#include "trainer/bench/product.h"
#include "trainer/bench/seed_table.h"
#include "trainer/bench/timing.h"
#include "trainer/output.h"
#include "trainer/tables.h"

namespace bellows {

// Medians of the precisions, in turns. a (.., M, K), b (K, N).
static std::vector<Timing> time_products(const std::vector<Precision>& wanted, const Shape& a,
                                         const Shape& b, Device device, std::vector<double>& flop) {
  std::vector<Product> products;
  std::vector<Call> calls;
  for (const Precision& precision : wanted) products.emplace_back(precision, a, b, device);
  for (const Product& product : products) {
    calls.push_back([&product] { product.run(); });
    flop.push_back(product.flop());
  }
  return time_in_turns(calls, device);
}

static std::string missing_line(Device device) {
  return device == Device::cpu ? "TF32, FP16 and BF16 are not on this CPU: they need a GPU" : "";
}

// ---- one product

static void print_product(const Shape& a, const Shape& b, Device device) {
  std::vector<double> flop;
  const std::vector<Precision>& all = precisions(device);
  const std::vector<Timing> times = time_products(all, a, b, device, flop);
  std::vector<TableRow> rows = {{"", "median", "rate", "fastest", "slowest"}};
  for (size_t i = 0; i < all.size(); ++i)
    rows.push_back({all[i].name, time_text(times[i].median()),
                    rate_text(flop[i] / times[i].median(), "FLOP/s"),
                    time_text(times[i].fastest()), time_text(times[i].slowest())});
  say(cat(a, " x ", b, " on ", device_text(device)));
  say_part(aligned(rows, "lrrrr"));
  if (const std::string line = missing_line(device); !line.empty()) say(line);
}

// ---- the seed's table

static std::string ms(double seconds) { return fmt::format("{:.3f}", 1e3 * seconds); }

// FP32, TF32, FP16, BF16 in ms, "-" for what the device has not, and FP32 / FP16.
static TableRow times_here(const Shape& a, const Shape& b, Device device) {
  std::vector<Precision> asked;
  for (const Precision& precision : precisions(device))
    if (precision.dtype != DType::f64) asked.push_back(precision);
  std::vector<double> flop;
  const std::vector<Timing> times = time_products(asked, a, b, device, flop);
  TableRow row;
  std::map<std::string, double> seconds;
  for (size_t i = 0; i < asked.size(); ++i) seconds[asked[i].name] = times[i].median();
  for (const char* name : {"FP32", "TF32", "FP16", "BF16"})
    row.push_back(seconds.contains(name) ? ms(seconds[name]) : "-");
  row.push_back(seconds.contains("FP16")
                    ? fmt::format("{:.2f}x", seconds["FP32"] / seconds["FP16"])
                    : "-");
  return row;
}

static void print_seed_table(Device device) {
  std::vector<TableRow> rows = {
      {"M", "K", "N", "| V100 FP32", "FP16", "FP16 is", "| here FP32", "TF32", "FP16", "BF16",
       "FP16 is", "| remark of the seed"}};
  for (const SeedRow& seed : kSeedTable) {
    TableRow row = {cat(seed.m), cat(seed.k), cat(seed.n), "| " + fmt::format("{:.3f}", seed.fp32_ms),
                    fmt::format("{:.3f}", seed.fp16_ms),
                    fmt::format("{:.2f}x", seed.speed_up())};
    TableRow here = times_here({16, seed.m, seed.k}, {seed.k, seed.n}, device);
    here[0] = "| " + here[0];
    row.insert(row.end(), here.begin(), here.end());
    row.push_back(cat("| ", seed.remark));
    rows.push_back(row);
  }
  say(cat("[16, M, K] x [K, N] in ms: a V100 with CUDA 10.1 and cuDNN 7.6.5, as the seed has it;\n",
          "and here, ", device_text(device), "\n"));
  say_part(aligned(rows, "rrrrrrrrrrrl"));
  say("\nThe 16 is folded into M: 16 x 36 = 576 and 16 x 35 = 560 are multiples of 8 both, so rows 1\n"
      "and 2 do not test M. Since cuBLAS 11 Tensor Cores take any size, so on a GPU of today rows 3\n"
      "and 4 are expected to come near row 1.");
  if (const std::string line = missing_line(device); !line.empty()) say(line + ".");
}

// ---- alignment

// FLOP/s at N = 4096, and with N less by what spoils each alignment.
static void print_measured_alignment(Device device) {
  std::vector<TableRow> rows = {{"K = N", "multiple of"}};
  for (const Precision& precision : precisions(device)) rows[0].push_back(precision.name);
  for (const auto& [size, multiple] :
       {std::pair<int64_t, int64_t>{4096, 4096}, {4080, 16}, {4088, 8}, {4092, 4}, {4094, 2}, {4095, 1}}) {
    std::vector<double> flop;
    const std::vector<Timing> times =
        time_products(precisions(device), {4096, size}, {size, size}, device, flop);
    TableRow row = {cat(size), cat(multiple)};
    for (size_t i = 0; i < times.size(); ++i)
      row.push_back(rate_text(flop[i] / times[i].median(), "FLOP/s"));
    rows.push_back(row);
  }
  say(cat("\n4096 x K x N on ", device_text(device)));
  say_part(aligned(rows, "rrrrrr"));
}

static void print_alignment(Device device) {
  std::vector<TableRow> rows = {
      {"Tensor Cores", "cuBLAS < 11.0, cuDNN < 7.6.3", "cuBLAS >= 11.0, cuDNN >= 7.6.3"}};
  for (const Alignment& row : alignments())
    rows.push_back({row.type, alignment_rule(row, 100000), alignment_rule(row, 110000)});
  say_part(aligned(rows));
  if (device == Device::cpu)
    say("\nnothing is measured: this CPU has no Tensor Cores");
  else
    print_measured_alignment(device);
}

// ---- the verb

static int run(const Arguments& args) {
  CommandLine line = bench_line("matmul");
  int64_t batch = 16, m = 36, k = 1504, n = 10000;
  bool seed_table = false, align = false;
  std::string wanted = "auto";
  const auto size = [&](const char* name, int64_t& value, const char* help) {
    return line.add_option(name, value, help)->check(CLI::Range(1, 1 << 20));
  };
  const std::vector<CLI::Option*> sizes = {size("--batch", batch, "of [batch, M, K] x [K, N]"),
                                           size("--m", m, "M"), size("--k", k, "K"),
                                           size("--n", n, "N")};
  auto* table = line.add_flag("--seed-table", seed_table, "the seed's sizes, its V100 and here");
  auto* rules = line.add_flag("--align", align, "which sizes Tensor Cores want")->excludes(table);
  for (CLI::Option* option : sizes) table->excludes(option), rules->excludes(option);
  add_device_option(line, wanted);
  if (!line.read(args)) return 0;
  const Device device = start_bench(wanted);
  if (seed_table)
    print_seed_table(device);
  else if (align)
    print_alignment(device);
  else
    print_product({batch, m, k}, {k, n}, device);
  return 0;
}

static const AddBench bench({"matmul", "a product in each precision; the seed's table; alignment",
                             "trainer bench matmul --seed-table", run});

}  // namespace bellows
