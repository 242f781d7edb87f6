// trainer bench matmul: products in every precision of a device, the table of statement S1:62 of a
// V100 next to the same sizes here, and the effect of alignment.
#include <fmt/format.h>
#include "core/base/output.h"
#include "core/base/words.h"
#include "core/device/timer.h"
#include "labs/bench/bench.h"
#include "labs/bench/product.h"
#include "trainer/verbs/tables.h"

namespace bellows {

namespace {
struct Measuring {
  Device device;
  int64_t rounds;
};
}  // namespace

// Times all precisions alternately. a: (.., M, K), b: (K, N).
static std::vector<Timing> measure(const std::vector<Precision>& wanted, const Shape& a,
                                   const Shape& b, const Measuring& how) {
  std::vector<Product> products;
  for (const Precision& precision : wanted) products.emplace_back(precision, a, b, how.device);
  std::vector<std::function<void()>> calls;
  for (const Product& product : products) calls.emplace_back([&product] { product.run(); });
  return time_interleaved(calls, how.device, {.rounds = int(how.rounds)});
}

static std::string rate(const Timing& timing, const Shape& a, const Shape& b) {
  return rate_text(2.0 * double(a.numel()) * double(b[-1]) / timing.median(), "FLOP/s");
}

static void say_what_is_missing(Device device) {
  Names missing;
  for (const Precision& p : precisions(Device::cuda)) missing.push_back(p.name);
  for (const Precision& p : precisions(device)) std::erase(missing, p.name);
  if (!missing.empty()) say(cat("not on this CPU, but on a GPU: ", joined(missing)));
}

static void print_product(const Shape& a, const Shape& b, const Measuring& how) {
  std::vector<TableRow> rows = {{"", "median", "rate", "fastest", "slowest"}};
  const std::vector<Precision>& all = precisions(how.device);
  const std::vector<Timing> times = measure(all, a, b, how);
  for (size_t i = 0; i < all.size(); ++i)
    rows.push_back({all[i].name, time_text(times[i].median()), rate(times[i], a, b),
                    time_text(times[i].fastest()), time_text(times[i].slowest())});
  say(cat(a, " x ", b, " on ", device_text(how.device)));
  say_part(aligned(rows, "lrrrr"));
  say_what_is_missing(how.device);
}

// ---- the table of statement S1:62 of docs/seeds.md

namespace {
// [16, m, k] x [k, n] on a V100, with CUDA 10.1 and cuDNN 7.6.5.
struct SeedRow {
  int64_t m, k, n;
  double fp32_ms, fp16_ms;
  const char* remark;
};
constexpr SeedRow kSeedTable[] = {{36, 1504, 10000, 1.340, 0.267, "M, K, N multiples of 8"},
                                  {35, 1504, 10000, 1.330, 0.264, "M is not a multiple of 8"},
                                  {36, 1500, 10000, 1.433, 1.367, "K is not a multiple of 8"},
                                  {36, 1504, 9999, 1.406, 1.388, "N is not a multiple of 8"}};
}  // namespace

static std::map<std::string, double> times_here(const SeedRow& seed, const Measuring& how) {
  std::vector<Precision> wanted = precisions(how.device);
  std::erase_if(wanted, [](const Precision& p) { return p.dtype == DType::f64; });
  const auto measured = measure(wanted, {16, seed.m, seed.k}, {seed.k, seed.n}, how);
  std::map<std::string, double> times;
  for (size_t i = 0; i < wanted.size(); ++i) times[wanted[i].name] = 1e3 * measured[i].median();
  return times;
}

static TableRow row_of(const SeedRow& seed, const std::map<std::string, double>& here) {
  const auto ms = [](double time) { return fmt::format("{:.3f}", time); };
  const auto faster = [](double ratio) { return fmt::format("{:.2f}x", ratio); };
  TableRow row = {cat(seed.m), cat(seed.k), cat(seed.n), "|"};
  row.insert(row.end(),
             {ms(seed.fp32_ms), ms(seed.fp16_ms), faster(seed.fp32_ms / seed.fp16_ms), "|"});
  for (const char* name : {"FP32", "TF32", "FP16", "BF16"})
    row.push_back(here.contains(name) ? ms(here.at(name)) : "-");
  row.push_back(here.contains("FP16") ? faster(here.at("FP32") / here.at("FP16")) : "-");
  row.insert(row.end(), {"|", seed.remark});
  return row;
}

static void print_source_table(const Measuring& how) {
  std::vector<TableRow> rows = {{"", "", "", "|", "V100", "", "", "|", "here"},
                                {"M", "K", "N", "|", "FP32", "FP16", "speed-up", "|", "FP32",
                                 "TF32", "FP16", "BF16", "speed-up", "|", "remark of S1:62"}};
  for (const SeedRow& seed : kSeedTable) rows.push_back(row_of(seed, times_here(seed, how)));
  say("[16, M, K] x [K, N] in ms: the V100 of S1:62 with CUDA 10.1 and cuDNN 7.6.5,");
  say_part(cat("and here, ", device_text(how.device), "\n\n"));
  say_part(aligned(rows, "rrrlrrrlrrrrrll"));
  say("");
  say_part(
      "The 16 is folded into M, and both 16 x 36 and 16 x 35 are multiples of 8, so the table "
      "does\n"
      "not test M. Since cuBLAS 11, Tensor Cores take any size: on a current GPU, rows 3 and 4\n"
      "should come close to row 1.\n");
  say_what_is_missing(how.device);
}

// ---- alignment

static void print_measured_alignment(const Measuring& how) {
  std::vector<TableRow> rows = {{"K and N", "multiples of"}};
  const std::vector<Precision> all = precisions(how.device);
  for (const Precision& precision : all) rows[0].push_back(precision.name);
  for (const int64_t size : {4096, 4080, 4088, 4092, 4094, 4095}) {
    const Shape a = {4096, size}, b = {size, size};
    rows.push_back({cat(size), cat(size & -size)});
    for (const Timing& t : measure(all, a, b, how)) rows.back().push_back(rate(t, a, b));
  }
  say_part(cat("\n4096 x K x N on ", device_text(how.device), "\n"));
  say_part(aligned(rows, "rrrrrr"));
}

// When a matrix product runs on Tensor Cores; multiples are of elements. Source: NVIDIA, "Deep
// Learning Performance: Matrix Multiplication Background", requirements table.
static void print_alignment(const Measuring& how) {
  say_part(aligned({
      {"Tensor Cores", "cuBLAS < 11.0, cuDNN < 7.6.3", "cuBLAS >= 11.0, cuDNN >= 7.6.3"},
      {"INT8", "multiples of 16", "always; best with multiples of 16, on A100 of 128"},
      {"FP16", "multiples of 8", "always; best with multiples of 8, on A100 of 64"},
      {"TF32", "not available", "always; best with multiples of 4, on A100 of 32"},
      {"FP64", "not available", "always; best with multiples of 2, on A100 of 16"},
  }));
  if (how.device != Device::cpu) return print_measured_alignment(how);
  say("");
  say("nothing is measured: this CPU has no Tensor Cores");
}

static int run_matmul(CommandLine& line, const Arguments& args) {
  int64_t batch = 16, m = 36, k = 1504, n = 10000, rounds = 5;
  bool source_table = false, align = false;
  std::string device = "auto";
  const auto table =
      line.add_flag("--source-table", source_table,
                    "the sizes of statement S1:62: times of its V100, and of this machine");
  const auto rules =
      line.add_flag("--align", align, "the sizes that suit Tensor Cores").excludes(table);
  const auto add_size = [&](const char* name, int64_t& size, const char* help) {
    line.add_option(name, size, help).range(1, 1 << 20).excludes(table).excludes(rules);
  };
  add_size("--batch", batch, "batch of [batch, M, K] x [K, N]");
  add_size("--m", m, "M");
  add_size("--k", k, "K");
  add_size("--n", n, "N");
  line.add_option("--rounds", rounds, "in each of which every precision runs once")
      .range(1, 1000)
      .shows_default();
  add_device_option(line, device);
  if (!line.read(args)) return 0;
  const Measuring how = {start_bench(device), rounds};
  if (source_table)
    print_source_table(how);
  else if (align)
    print_alignment(how);
  else
    print_product({batch, m, k}, {k, n}, how);
  return 0;
}

static const AddBench matmul_bench(
    {"matmul", "a product in each precision; the table of statement S1:62; alignment",
     "trainer bench matmul --source-table", run_matmul});

}  // namespace bellows
