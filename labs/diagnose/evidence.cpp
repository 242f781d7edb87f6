#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include "core/base/file.h"
#include "core/base/statistics.h"
#include "core/base/trace.h"
#include "core/config/config.h"
#include "core/device/device_info.h"
#include "core/device/threads.h"
#include "core/device/timer.h"
#include "labs/bench/step.h"
#include "labs/diagnose/diagnosis.h"
#include "labs/doctor/doctor.h"
#include "labs/profile/analysis.h"
#include "labs/profile/recorder.h"
#include "trainer/log/meter.h"
#include "trainer/log/nvml.h"
#include "trainer/session/planted_load.h"
#include "trainer/state/run_record.h"
#include "trainer/state/training_state.h"

namespace bellows {

double Evidence::batch_s() const { return mean(batch_cost); }
double Evidence::reader_s() const { return mean(reader_cost); }

double Evidence::swing() const {
  std::vector<double> shares;
  for (size_t i = 0; i < batch_cost.size(); ++i)
    shares.push_back(1 - reader_cost[i] / std::max(batch_cost[i], 1e-12));
  const double middle = mean(shares);
  for (double& share : shares) share = (share - middle) * (share - middle);
  return std::sqrt(mean(shares));
}

int64_t Evidence::workers() const {
  const int64_t workers = config.plan.data.loader.workers.num_workers;
  return workers == kAutoWorkers ? 1 : workers;
}

int64_t Evidence::counted(const std::string& counter) const {
  return trace::value_of(counters, counter);
}

// ---- measured here

static Plan measured_plan(Plan plan) {
  plan.train.cuda_graph = false;  // a replay enters no ranges
  plan.debug.lock_stats = true;
  plan.target = {};
  return plan;
}

// Trains on the next batch. Returns the seconds spent waiting for it.
static double update(RepeatedStep& train) {
  const int64_t begin = trace::now_ns();
  train.next_batch();
  const double reader_s = seconds_since(begin);
  train();
  synchronize(current_stream(train.device()));
  return reader_s;
}

static void add_ops(Evidence& e, const Recording& recording) {
  if (on_host(recording)) return;
  Ceilings ceilings;  // ceilings of the CPU
  if (!e.on_gpu) ceilings = {fma_rate(DType::f32), fma_rate(DType::bf16), 0};
  const Json profile = analyze(recording, ceilings);
  std::map<std::string, OpTime> ops;
  const auto of_an_update = [&](const Json& total) {
    return total.get<double>() / double(e.updates);
  };
  for (const Json& row : profile["ops"]) {  // forward and backward have separate rows
    const std::string name = row["op"];
    OpTime& op = ops.try_emplace(name, OpTime{name}).first->second;
    op.s += of_an_update(row["s"]);
    op.calls += of_an_update(row["calls"]);
    op.flop += of_an_update(row["flop"]);
    if (row["flop"] > 0) e.product_bytes += of_an_update(row["bytes"]);
  }
  for (auto& [name, op] : ops) e.ops.push_back(std::move(op));
  std::ranges::sort(e.ops, std::greater(), &OpTime::s);
  const bool replays = e.on_gpu && e.config.plan.train.cuda_graph;  // a replay has no such gaps
  for (const Json& gap : profile["gaps"])
    if (!replays && (gap["cause"] == "host" || gap["cause"] == "launch"))
      e.between_ops_s += gap["s"].get<double>();
  e.fma_per_s = ceilings.f32;
}

static void add_machine(Evidence& e, const Session& session) {
  const CudaReport gpus = cuda_report();
  e.on_gpu = session.device == Device::cuda;
  e.tensor_cores = e.on_gpu && !gpus.gpus.empty() && gpus.gpu().arch >= 70;
  e.gpu_idle = !e.on_gpu && !gpus.gpus.empty() && gpus.code.runtime != 0;
  if (const std::optional<Nvml> nvml = open_nvml(session.device))
    if (const std::optional<GpuLoad> gpu = nvml->read()) e.gpu_processes = int(gpu->processes);
  for (const NormedConv& conv : session.normed_convs) e.biases_before_norm += conv.has_bias;
}

Evidence measure(Config config, double seconds, double limit_s) {
  const int64_t start = trace::now_ns();
  const auto late = [&] { return seconds_since(start) > limit_s; };
  check_alone("diagnose", config.plan.dist);
  settle_planted_load(config.plan);
  RepeatedStep train(measured_plan(config.plan));
  const Session& session = train.session();
  const Kernels use(session.kernels());  // the feed also runs kernels
  for (int64_t k = 0; k < session.tuning.warm_up() && !late(); ++k) update(train);
  constexpr int64_t kFewest = 5, kMost = 2000;
  Evidence e{.config = config, .cores = allowed_cores(), .measured = true};
  add_machine(e, session);
  const int64_t skipped = session.state->read().skipped;
  const Counters before = trace::counters();
  const MakingTime& making = session.loader->making_time();
  const int64_t made = making.batches, making_ns = making.ns;
  const CpuShare cpu;
  const MachineClock machine;
  LoadMeter load;
  Recorder recorder(session, 1, 1 + kMost);
  recorder.after_update({.step = 1});  // starts recording
  // Ends by the clock, because no single update shows how many there is time for: the first ones
  // are slow, and batches come in bursts.
  const int64_t begin = trace::now_ns();
  int64_t end = begin;  // end of an update, at which the next one begins
  for (bool done = false; !done;) {
    e.reader_cost.push_back(update(train));
    e.batch_cost.push_back(seconds_since(std::exchange(end, trace::now_ns())));
    ++e.updates;
    done =
        e.updates == kMost || late() || (e.updates >= kFewest && seconds_since(begin) >= seconds);
    if (done) recorder.end_at(1 + e.updates);
    recorder.after_update({.step = 1 + e.updates});
  }
  const CpuUse used = cpu.use();
  if (const auto seen = load.next()) e.disk_bytes_per_s = seen->disk_bytes_per_s;
  e.load_s =
      1e-9 * double(making.ns - making_ns) / double(std::max<int64_t>(1, making.batches - made));
  e.batch_bytes = double(train.batch().x.nbytes());
  e.cpu_used = used.used;
  e.waited = used.waited;
  const BusyMachine busy = machine.since_begin();
  e.others = busy.others + busy.stolen;
  e.counters = trace::moved_since(before);
  e.skipped = session.state->read().skipped - skipped;
  add_ops(e, recorder.take());
  return e;
}

// ---- read from a run's folder

Evidence read_evidence(const std::string& folder) {
  const Json run = read_run(folder);
  const std::string plan = (Path(folder) / "plan.yaml").string();
  Evidence e{.config = make_config(read_sources(plan, {})), .cores = allowed_cores()};
  const Json &train = run["train"], &totals = run["totals"], &env = run["env"];
  const auto total = [&](const char* key, double otherwise = 0) {
    const double value = number_in(totals, key);
    return std::isfinite(value) ? value : otherwise;
  };
  e.batch_cost = finite(column(train, "batch_cost"));
  e.reader_cost = finite(column(train, "reader_cost"));
  CHECK(!e.batch_cost.empty() && e.batch_cost.size() == e.reader_cost.size(), "diagnose: ", folder,
        ": no log line with batch_cost and reader_cost in its metrics.jsonl");
  e.updates = int64_t(column(train, "step").back());
  const double eval = total("eval_s"), save = total("save_s");
  const double all = std::max(total("load_s") + total("step_s") + eval + save, 1e-9);
  e.eval_share = eval / all;
  e.save_share = save / all;
  e.saves = int64_t(total("saves", -1));
  e.load_s = total("load_s_per_batch");
  e.cpu_used = total("cpu_used", -1);
  e.waited = total("cpu_waited", -1);
  if (const double cores = number_in(env, "cores"); cores >= 1 && cores < 1e6)
    e.cores = static_cast<int>(cores);
  const auto machine = finite(column(train, "cpu_utilization"));
  // A run of less than a second has no load of the machine in its log.
  if (!machine.empty() && e.cpu_used >= 0)
    e.others = std::max(0.0, mean(machine) - e.cpu_used / e.cores);
  if (const auto disk = finite(column(train, "disk_bytes_per_s")); !disk.empty())
    e.disk_bytes_per_s = mean(disk);
  if (const auto skipped = finite(column(train, "skipped_updates")); !skipped.empty())
    e.skipped = int64_t(skipped.back());
  e.on_gpu = train.contains("gpu_utilization");
  // The first of several windows is left out: it also makes buffers and searches for kernels.
  if (e.batch_cost.size() > 2) {
    e.batch_cost.erase(e.batch_cost.begin());
    e.reader_cost.erase(e.reader_cost.begin());
  }
  return e;
}

}  // namespace bellows
