// bench_gpu: effective bandwidth of our kernels relative to a device copy. Effective bandwidth is
// the bytes that an ideal kernel must read and write, over the median time of a launch. Tensors are
// at least four times as large as the L2 cache, which is overwritten before each launch.
//
//   bench_gpu                                  f32 and bf16 on the GPU
//   bench_gpu --device cpu --mib 4             the same kernels on the CPU, relative to memcpy
//   bench_gpu --only batch_norm --out STEM        writes STEM.md and STEM.json
#include "peers/gpu/bandwidth.h"
#include <fmt/format.h>
#include <deque>
#include <fstream>
#include <nlohmann/json.hpp>
#include "autograd/record.h"
#include "core/base/json.h"
#include "core/base/statistics.h"
#include "core/base/trace.h"
#include "core/device/allocator.h"
#include "core/device/device_info.h"
#include "core/device/threads.h"
#include "core/device/timer.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "core/tensor/rng.h"
#include "labs/bench/bench.h"
#include "trainer/log/nvml.h"
#include "trainer/verbs/command_line.h"

namespace bellows {

Tensor Setup::normal(const Shape& shape) const {
  const Tensor t = empty(shape, DType::f32);
  fill_normal(t, 0, 1, {});
  return cast(t, dtype);
}

Tensor Setup::indices(const Shape& shape, int64_t below) const {
  const Tensor t = empty(shape, DType::f32);
  fill_uniform(t, 0, double(below), {});
  return cast(t, DType::i64);
}

Task work(const std::vector<Tensor>& touched, std::function<Outputs()> run) {
  int64_t bytes = 0;
  for (const Tensor& t : touched) bytes += int64_t(t.nbytes());
  return {bytes, std::move(run)};
}

}  // namespace bellows

using namespace bellows;

namespace {

struct Wanted {
  std::string device = "cuda", only, out;
  Arguments dtypes;
  int64_t mib = 256, runs = 20;  // mib: size of the largest tensor
};

Wanted parse(int argc, char** argv) {
  Wanted a;
  CommandLine line("bench_gpu", "own kernels against the copy rate", "bench_gpu --device cpu");
  line.add_option("--device", a.device, "to measure").one_of({"cpu", "cuda"});
  line.add_option("--dtype", a.dtypes, "of the tensors").one_of({"f32", "bf16", "f16"});
  line.add_option("--mib", a.mib, "of the largest tensor: four times the L2 or more");
  line.add_option("--runs", a.runs, "of each kernel").positive();
  line.add_option("--only", a.only, "kernels with that in their name");
  line.add_option("--out", a.out, "stem of a .md and a .json");
  if (!line.read({argv + 1, argv + argc})) std::exit(0);
  if (a.dtypes.empty()) a.dtypes = a.device == "cuda" ? Arguments{"f32", "bf16"} : Arguments{"f32"};
  return a;
}

DType dtype_named(const std::string& name) {
  return name == "bf16" ? DType::bf16 : name == "f16" ? DType::f16 : DType::f32;
}

// Median ms of a run, each after a cache flush. The flush also hides launch latency.
double time_of(const std::function<void()>& run, const Tensor& flush, int64_t runs) {
  const Stream stream = current_stream(flush.device());
  std::deque<Moment> begins, ends;  // deque: a Moment cannot be moved
  for (int64_t i = -3; i < runs; ++i) {
    fill(flush, double(i));
    begins.emplace_back(stream);
    run();
    ends.emplace_back(stream);
  }
  synchronize(stream);
  std::vector<double> ms;
  for (size_t i = 3; i < ends.size(); ++i) ms.push_back(ends[i].ms_since(begins[i]));
  return median(ms);
}

// GB/s of a copy by the device's API, counting bytes read and written.
double copy_rate(const Setup& s, const Tensor& flush, int64_t runs) {
  const Tensor from = s.normal({s.n}), to = s.empty({s.n}, s.dtype);
  const auto copy = [&] {
    api_of(s.device).copy(to.bytes(), from.bytes(), from.nbytes(), current_stream(s.device));
  };
  return 2e-6 * double(from.nbytes()) / time_of(copy, flush, runs);
}

// Times one kernel. Tensors that it returns count as written.
Json measure(const Case& test, const Setup& s, const Tensor& flush, int64_t runs) {
  const Task work = test.prepare(s);
  int64_t bytes = work.bytes;
  for (const Tensor& output : work.run()) bytes += int64_t(output.nbytes());
  const double ms = time_of([&] { work.run(); }, flush, runs);
  return {{"kernel", test.name},   {"dtype", cat(s.dtype)},
          {"passes", test.passes}, {"mib", double(bytes) / (1 << 20)},
          {"us", ms * 1e3},        {"gb_per_s", 1e-6 * double(bytes) / ms}};
}

// Names of this device's kernels that no row has run.
Json left_out(Device device) {
  std::set<std::string> names;
  for (const KernelRecord* record : kernel_records()) {
    const int d = static_cast<int>(device);
    if (record->file[d] && record->runs[d] == 0) names.insert(record->name);
  }
  return names;
}

Json rows_of(const Wanted& a, Device device) {
  Json rows = Json::array();
  const int64_t bytes = a.mib << 20;
  const Tensor flush = full({bytes / 4}, 1, DType::f32, device);
  for (const std::string& name : a.dtypes) {
    const DType dtype = dtype_named(name);
    const Setup setup{bytes / int64_t(size_of(dtype)), dtype, device};
    const double copied = copy_rate(setup, flush, a.runs);
    rows.push_back({{"kernel", "the device's copy"},
                    {"dtype", name},
                    {"passes", "x; y"},
                    {"gb_per_s", copied},
                    {"share", 1.0}});
    for (const Case& test : own_kernels()) {
      if (std::string_view(test.name).find(a.only) == std::string_view::npos) continue;
      try {
        rows.push_back(measure(test, setup, flush, a.runs));
        rows.back()["share"] = double(rows.back()["gb_per_s"]) / copied;
      } catch (const Error& error) {  // this device has no kernel for the dtype
        rows.push_back({{"kernel", test.name}, {"dtype", name}, {"refused", error.what()}});
      }
    }
  }
  return rows;
}

// Clocks, power and temperature of the GPU; "" for a CPU.
std::string state_of(Device device) {
  const std::optional<Nvml> nvml = nvml_of(device);
  return nvml ? text_of(nvml->read()) : "";
}

std::string number(const Json& row, const char* key, double factor = 1) {
  return row.contains(key) ? fmt::format("{:.4g}", double(row[key]) * factor) : "";
}

std::string markdown(const Json& report) {
  std::string text = fmt::format(
      "# Bandwidth of own kernels, {}\n\n"
      "Bytes of the passes that a perfect kernel needs (read; written), over the median of {} "
      "launches, each after a flush of the cache. The largest tensor of each has {} MiB.\n\n"
      "| kernel | dtype | passes | MiB | us | GB/s | % of the copy |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n",
      std::string(report["device"]), int(report["runs"]), int64_t(report["mib"]));
  for (const Json& row : report["rows"])
    text += fmt::format(
        "| {} | {} | {} | {} | {} | {} | {} |\n", std::string(row["kernel"]),
        std::string(row["dtype"]), std::string(row.value("passes", row.value("refused", ""))),
        number(row, "mib"), number(row, "us"), number(row, "gb_per_s"), number(row, "share", 100));
  std::string names;
  for (const Json& name : report["left_out"]) names += " " + std::string(name);
  text += "\nKernels without a row (those of backward have their op's name):" +
          (names.empty() ? " none" : names) + "\n";
  for (const char* when : {"gpu before", "gpu after"})
    if (const std::string load = report[when]; !load.empty())
      text += fmt::format("\n- {}: {}", when, load);
  return text + "\n";
}

int run(const Wanted& a) {
  const Device device = a.device == "cuda" ? Device::cuda : Device::cpu;
  CHECK(device_count(device) > 0, "--device ", a.device, ": ", why_no_device(device));
  configure_allocator(device, {.caching = true});
  apply(ThreadOptions{.threads = 1});  // memcpy has one thread too
  const NoGrad plain;
  const std::string before = state_of(device);
  const Json rows = rows_of(a, device);
  const Json report = {{"device", device_text(device)},
                       {"gpu before", before},
                       {"gpu after", state_of(device)},
                       {"mib", a.mib},
                       {"runs", a.runs},
                       {"rows", rows},
                       {"left_out", left_out(device)}};
  const std::string text = markdown(report);
  fmt::print("{}", text);
  if (a.out.empty()) return 0;
  std::ofstream(a.out + ".md") << text;
  std::ofstream(a.out + ".json") << report.dump(1) << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const Error& error) {
    fmt::print(stderr, "bench_gpu: {}\n", error.what());
    return static_cast<int>(error.exit);
  }
}
