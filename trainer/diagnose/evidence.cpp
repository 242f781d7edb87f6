#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <sstream>
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/trace.h"
#include "core/config/config.h"
#include "core/config/hint.h"
#include "core/device/device_info.h"
#include "core/device/threads.h"
#include "core/device/timer.h"
#include "ops/base/work.h"
#include "trainer/diagnose/diagnosis.h"
#include "trainer/doctor/doctor.h"
#include "trainer/log/machine_load.h"
#include "trainer/run/cpu_share.h"
#include "trainer/session/session.h"
#include "trainer/session/training_step.h"

namespace bellows {

static double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

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

int64_t Evidence::counted(const std::string& counter) const {
  const auto at = counters.find(counter);
  return at == counters.end() ? 0 : at->second;
}

// ---- measured here

constexpr const char* kBetween = "";  // not in an op

namespace {
// Work of the ops of one update.
struct StepOps {
  explicit StepOps(const std::vector<RecordedOp>& log) {
    for (const RecordedOp& op : log) {
      OpWork work = work_of(op);
      const double flop = work.forward.flop + work.backward.flop;
      name_at.try_emplace(op.path, op.name);
      if (flop == 0) continue;
      name_at[op.path] = op.name;  // a module with a product is named after it
      flop_of[op.name] += flop;
      product_bytes += work.forward.bytes + work.backward.bytes;
    }
  }
  std::map<std::string, std::string> name_at;  // an op of each module, by the module's path
  std::map<std::string, double> flop_of;       // by the op's name
  double product_bytes = 0;
};
}  // namespace

// Adds the self times of ops in seconds: a range, minus those inside it.
static std::map<std::string, double> self_times(std::vector<trace::Event> events,
                                                const StepOps& step) {
  std::ranges::sort(events, [](const trace::Event& a, const trace::Event& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  });
  std::map<std::string, double> self;
  struct Open {
    int64_t end_ns;
    std::string name;
  };
  std::vector<Open> open;
  int64_t backward_until = 0;
  for (const trace::Event& e : events) {
    while (!open.empty() && open.back().end_ns <= e.begin_ns) open.pop_back();
    const std::string_view range = e.name;
    if (range == "backward") backward_until = e.end_ns;
    const auto module = step.name_at.find(e.path);
    const bool forward =
        e.begin_ns >= backward_until && range != "optimizer" && range != "zero_grad";
    // A module that records no op only calls others: its own time is between ops.
    std::string name = range == "backward"            ? kBetween
                       : !forward                     ? e.name
                       : module == step.name_at.end() ? kBetween
                                                      : module->second;
    const double s = 1e-9 * double(e.end_ns - e.begin_ns);
    if (!open.empty()) self[open.back().name] -= s;
    self[name] += s;
    open.push_back({e.end_ns, std::move(name)});
  }
  return self;
}

static Plan measured_plan(Plan plan) {
  plan.train.cuda_graph = false;  // a replay enters no ranges
  plan.debug.lock_stats = true;
  plan.target = {};
  return plan;
}

namespace {
// Reads batches epoch after epoch.
class Batches {
 public:
  explicit Batches(Session& session) : session_(session) {}
  const Batch& next() {
    if (epoch_ < 0 || !session_.feed->next(batch_)) {
      session_.feed->start(++epoch_);
      CHECK(session_.feed->next(batch_), "diagnose: the training set has no full batch");
    }
    return batch_;
  }

 private:
  Session& session_;
  Batch batch_;
  int64_t epoch_ = -1;
};
}  // namespace

static Counters increases(const Counters& before) {
  Counters more = trace::counters();
  for (auto& [name, value] : more)
    if (const auto at = before.find(name); at != before.end()) value -= at->second;
  return more;
}

// Turns collected ranges into times per update.
static void add_ops(Evidence& e, const StepOps& step) {
  const double updates = double(e.updates);
  double in_ops = 0;
  for (const auto& [name, s] : self_times(trace::take_events(), step)) {
    if (name == kBetween) continue;
    const auto flop = step.flop_of.find(name);
    e.ops.push_back({name, s / updates, flop == step.flop_of.end() ? 0 : flop->second});
    in_ops += s / updates;
  }
  std::ranges::sort(e.ops, std::greater(), &OpTime::s);
  e.between_ops_s = std::max(0.0, e.compute_s() - in_ops);
  e.product_bytes = step.product_bytes;
  if (!e.on_gpu) e.fma_per_s = fma_rate(DType::f32);
}

Evidence measure(const Config& config, double seconds) {
  const Plan plan = measured_plan(config.plan);
  CHECK(this_rank(plan.dist).world == 1,
        "diagnose: measures one rank; run it without a launcher, or give it the run's folder");
  Session session(plan);
  TrainingStep train(session);
  train.prepare();
  session.model->train(true);
  const Kernels use(session.kernels());
  const Stream stream = current_stream(session.device);
  Batches batches(session);
  const auto update = [&] {
    session.feed->catch_up();
    train({batches.next(), plan.train.accumulate});
  };
  const bool searches = plan.kernels.autotune == Autotune::benchmark;
  const int64_t warmup = searches ? plan.train.tuning_window.back() : 3;
  for (int64_t k = 0; k < warmup; ++k) update();
  OpLog log;
  update();
  const StepOps step(std::exchange(log.ops, {}));
  synchronize(stream);

  Evidence e{.config = config, .on_gpu = session.device == Device::cuda, .measured = true};
  const CudaReport gpus = cuda_report();
  e.tensor_cores = e.on_gpu && gpus.gpu().arch >= 70;
  e.gpu_idle = !e.on_gpu && !gpus.gpus.empty() && gpus.code.runtime != 0;
  e.cores = allowed_cores();
  for (const NormedConv& conv : session.normed_convs) e.biases_before_norm += conv.has_bias;
  const Counters before = trace::counters();
  const MakingTime& making = session.loader->making_time();
  const int64_t made = making.batches, making_ns = making.ns;
  const CpuShare cpu;
  LoadMeter load;
  const int64_t begin = trace::now_ns();
  trace::take_events();
  trace::collect(true);
  constexpr int64_t kFewest = 5, kMost = 2000;
  for (int64_t at = begin;
       e.updates < kFewest || (e.updates < kMost && seconds_since(begin) < seconds); ++e.updates) {
    session.feed->catch_up();
    const Batch& batch = batches.next();
    const int64_t loaded = trace::now_ns();
    e.batch_bytes = double(batch.x.nbytes());
    train({batch, plan.train.accumulate});
    synchronize(stream);
    const int64_t end = trace::now_ns();
    e.reader_cost.push_back(1e-9 * double(loaded - at));
    e.batch_cost.push_back(1e-9 * double(end - at));
    at = end;
  }
  trace::collect(false);
  const CpuUse used = cpu.use();
  e.load_s =
      1e-9 * double(making.ns - making_ns) / double(std::max<int64_t>(1, making.batches - made));
  if (const auto seen = load.next()) e.disk_bytes_per_s = seen->disk_bytes_per_s;
  e.cpu_used = used.used;
  e.waited = used.waited;
  e.counters = increases(before);
  add_ops(e, step);
  return e;
}

// ---- read from a run's folder

static Json parsed(const std::string& text, const Path& file) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object())
    fail(Exit::checkpoint, file.string(), ": damaged: '", on_one_line(text.substr(0, 40)),
         "' is no JSON object");
  return json;
}

static double number(const Json& row, const char* key, double otherwise = 0) {
  const auto at = row.find(key);
  return at == row.end() || !at->is_number() ? otherwise : at->get<double>();
}

Evidence evidence_of(const std::string& folder) {
  const Path run = folder, plan = run / "plan.yaml", metrics = run / "metrics.jsonl";
  for (const Path& file : {plan, metrics})
    CHECK(kind_of(file, Exit::usage) == Kind::file, "diagnose: ", folder, ": no ",
          file.filename().string(), " in it, so it is no run folder");
  Evidence e{.config = make_config(sources_of(plan.string(), {})), .cores = allowed_cores()};
  constexpr int64_t kLargest = int64_t{1} << 30;
  std::istringstream rows(read_file(metrics, kLargest, Exit::checkpoint));
  for (std::string line; std::getline(rows, line);) {
    const Json row = parsed(line, metrics);
    const std::string split = row.value("split", "");
    if (split == "train") {
      e.updates = row.value("step", int64_t{0});
      e.batch_cost.push_back(number(row, "batch_cost"));
      e.reader_cost.push_back(number(row, "reader_cost"));
    } else if (split == "run") {
      const double load = number(row, "load_s"), step = number(row, "step_s"),
                   eval = number(row, "eval_s"), save = number(row, "save_s");
      const double all = std::max(load + step + eval + save, 1e-9);
      e.eval_share = eval / all;
      e.save_share = save / all;
      e.load_s = number(row, "load_s_per_batch");
      e.cpu_used = number(row, "cpu_used", -1);
      e.waited = number(row, "cpu_waited", -1);
    }
  }
  CHECK(!e.batch_cost.empty(), "diagnose: ", metrics.string(), ": no training step in it");
  e.on_gpu = e.config.plan.device == DeviceChoice::cuda;
  // The first window of several also makes buffers and searches for kernels.
  if (e.batch_cost.size() > 2) {
    e.batch_cost.erase(e.batch_cost.begin());
    e.reader_cost.erase(e.reader_cost.begin());
  }
  return e;
}

}  // namespace bellows
