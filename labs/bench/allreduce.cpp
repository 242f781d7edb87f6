// trainer bench allreduce: times of sums over all ranks by message size, beside Gloo's own call.
#include <fmt/format.h>
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>
#include "core/base/json.h"
#include "core/base/output.h"
#include "core/base/statistics.h"
#include "core/device/timer.h"
#include "dist/groups/gloo_mesh.h"
#include "dist/groups/process_group.h"
#include "labs/bench/bench.h"
#include "trainer/verbs/tables.h"

namespace bellows {

namespace {
struct Measured {
  int64_t bytes;
  std::vector<double> ours, gloos;
};

class Bench {
 public:
  explicit Bench(const Ranks& ranks)
      : store_(meet(ranks, options_)),
        group_(
            Choice<MakeGroup>("gloo").make({.ranks = ranks, .store = store_, .options = options_})),
        mesh_(connect_mesh(ranks, *store_, "bench/", timeout_of(options_.timeout_s))) {}

  // Returns the median time in seconds that a small all-reduce costs a caller who reads the result
  // after other work, as the vote of each update does (trainer/run/consensus.cpp).
  double later_s() {
    const Tensor t = zeros({8}, DType::f64, Device::cpu);
    std::vector<double> seconds;
    for (int i = 0; i < 50; ++i) {
      const int64_t begin = time_ns(Clock::wall);
      const Work work = group_->all_reduce(t, Reduction::sum, "bench");
      const double start = seconds_since(begin);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const int64_t read = time_ns(Clock::wall);
      work.wait();
      seconds.push_back(start + seconds_since(read));
    }
    return median(seconds);
  }

  Measured measure(int64_t bytes, int64_t rounds) {
    const Tensor t = zeros({bytes / 4}, DType::f32, Device::cpu);
    const auto ours = [&] { group_->all_reduce(t, Reduction::sum, "bench").wait(); };
    const auto gloos = [&] { gloo_all_reduce(t); };
    const int64_t calls = calls_for(ours);
    seconds_per_call(gloos, 1);
    Measured m{bytes, {}, {}};
    for (int64_t round = 0; round < rounds; ++round)
      for (const bool mine : {round % 2 == 0, round % 2 != 0})
        (mine ? m.ours : m.gloos)
            .push_back(mine ? seconds_per_call(ours, calls) : seconds_per_call(gloos, calls));
    return m;
  }

 private:
  // Calls Gloo as PyTorch does: the default algorithm, in place.
  void gloo_all_reduce(const Tensor& t) {
    gloo::AllreduceOptions options(mesh_);
    options.setTag(++tag_);
    options.setOutput(t.ptr<float>(), size_t(t.numel()));
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
    gloo::allreduce(options);
  }

  double seconds_per_call(const auto& call, int64_t calls) {
    group_->barrier("bench");
    const int64_t begin = time_ns(Clock::wall);
    for (int64_t i = 0; i < calls; ++i) call();
    return seconds_since(begin) / double(calls);
  }

  // Returns how many calls fill a time slice on rank 0. The first call warms up.
  int64_t calls_for(const auto& call) {
    seconds_per_call(call, 1);
    const double once = seconds_per_call(call, 3);
    const Tensor calls =
        tensor_of(std::vector<int64_t>{std::clamp<int64_t>(int64_t(kSlice / once), 1, 1000)}, {1});
    group_->broadcast(calls, 0, "calls").wait();
    return *calls.ptr<int64_t>();
  }

  static constexpr double kSlice = 0.01;  // seconds
  const DistOptions options_;
  std::shared_ptr<Store> store_;
  std::unique_ptr<ProcessGroup> group_;
  GlooMesh mesh_;
  uint32_t tag_ = 0;
};
}  // namespace

// Bus bandwidth as in nccl-tests: bytes that each rank must send in any algorithm, per time.
static double bus_share(int world) { return 2.0 * (world - 1) / world; }

// Returns the latency of a hop and the bandwidth of a link with which a ring (labs/plan/forecast.h)
// takes the measured times of the smallest and the largest message; null if noise hides them.
static Json fit_link(const std::vector<Measured>& all, int world) {
  const double least = median(all.front().ours), more = median(all.back().ours) - least;
  const double bytes = double(all.back().bytes - all.front().bytes) * bus_share(world);
  if (more <= 0) return {};
  return {{"latency_us", 1e6 * least / (2.0 * (world - 1))}, {"gbps", 8e-9 * bytes / more}};
}

static void print(const std::vector<Measured>& all, int world, int64_t rounds, double later_s) {
  const auto rate = [](const Measured& m, const std::vector<double>& seconds, double share) {
    return fmt::format("{:.3f}", 1e-9 * double(m.bytes) * share / median(seconds));
  };
  std::vector<TableRow> rows = {
      {"bytes", "time", "GB/s", "bus GB/s", "Gloo's time", "GB/s", "bus GB/s", "ratio"}};
  for (const Measured& m : all) {
    std::vector<double> ratios;
    for (size_t i = 0; i < m.ours.size(); ++i) ratios.push_back(m.gloos[i] / m.ours[i]);
    rows.push_back({size_text(m.bytes), time_text(median(m.ours)), rate(m, m.ours, 1),
                    rate(m, m.ours, bus_share(world)), time_text(median(m.gloos)),
                    rate(m, m.gloos, 1), rate(m, m.gloos, bus_share(world)),
                    fmt::format("{:.2f}", median(ratios))});
  }
  say(cat("allreduce of f32 over ", world, " ranks: medians of ", count_of(rounds, "round"),
          " in turns; ratio: Gloo's time / ours"));
  say_part(aligned(rows, "rrrrrrrr"));
  say(cat("a small one that is read later, as the vote of each update, takes ", time_text(later_s),
          " of the caller"));
  const Json link = fit_link(all, world);
  if (link.is_null()) return;
  say(fmt::format("as a ring, for a prediction:  trainer plan --latency-us {:.1f} --gbps {:.2f}",
                  link["latency_us"].get<double>(), link["gbps"].get<double>()));
}

static int run_allreduce(CommandLine& line, const Arguments& args) {
  double max_mb = 32;
  int64_t rounds = 5;
  bool json = false;
  line.add_option("--max-mb", max_mb, "largest message in MiB; the smallest is 1 KiB")
      .positive()
      .shows_default();
  line.add_option("--rounds", rounds, "in each of which both run once")
      .range(1, 1000)
      .shows_default();
  line.add_flag("--json", json, "print one JSON object, times in seconds");
  line.add_note("Starts two ranks of its own unless a launcher started it.");
  if (!line.read(args)) return 0;
  const Ranks& ranks = this_rank({});
  if (ranks.launcher.empty()) {
    Arguments two = {"--ranks", "2", "--", "bench", "allreduce"};
    two.insert(two.end(), args.begin(), args.end());
    return run_verb(verbs().at("launch"), two);
  }
  CHECK(ranks.world > 1, "bench allreduce: needs at least two ranks; start more");
  Bench bench(ranks);
  std::vector<Measured> all;
  for (int64_t bytes = 1024; all.empty() || double(bytes) <= max_mb * (1 << 20); bytes *= 8)
    all.push_back(bench.measure(bytes, rounds));
  const double later_s = bench.later_s();
  if (ranks.rank > 0) return 0;
  if (!json) return print(all, ranks.world, rounds, later_s), 0;
  Json object = {{"ranks", ranks.world}, {"later_s", later_s}, {"sizes", Json::array()}};
  for (const Measured& m : all)
    object["sizes"].push_back({{"bytes", m.bytes}, {"ours_s", m.ours}, {"gloo_s", m.gloos}});
  object["link"] = fit_link(all, ranks.world);
  say(to_line(object));
  return 0;
}

static const AddBench allreduce_bench({"allreduce",
                                       "sums over ranks by size, beside Gloo's own call",
                                       "trainer bench allreduce --max-mb 1", run_allreduce});

}  // namespace bellows
