// The start of a session: the process, checks of the plan against the data, and notes.
#include <fmt/format.h>
#include <omp.h>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include "autograd/backward.h"
#include "core/base/json.h"
#include "core/base/mutex.h"
#include "core/base/words.h"
#include "core/config/hint.h"
#include "core/device/topology.h"
#include "trainer/session/planted_load.h"
#include "trainer/session/session.h"

namespace bellows {

// Each rank of a machine takes its own GPU. A launcher may make only that GPU visible.
static Device choose_device(const Plan& plan, const Ranks& ranks, std::vector<std::string>& notes) {
  if (plan.device == DeviceChoice::cpu) return notes.emplace_back("device: cpu"), Device::cpu;
  choose_gpu(plan.device.gpu                  ? *plan.device.gpu
             : device_count(Device::cuda) > 1 ? ranks.local_rank
                                              : 0);
  const std::string trouble = why_no_device(Device::cuda), wanted = plan.device.text();
  if (plan.device.kind == DeviceChoice::cuda) {
    CHECK(trouble.empty(), "device: ", wanted, ", but ", trouble, "; or write  device: auto");
    return notes.push_back("device: " + wanted), Device::cuda;
  }
  notes.push_back(trouble.empty() ? "device: auto -> cuda"
                                  : cat("device: auto -> cpu (", trouble, ")"));
  return trouble.empty() ? Device::cuda : Device::cpu;
}

// Sets up process-wide state. Must run before anything allocates or opens a parallel region.
void Session::prepare_process() {
  // Ranks of one machine share its cores, unless the user sets the number of threads. If each rank
  // used all cores, a thread that others wait for might itself wait for a core.
  ThreadOptions threads = plan.threads;
  const char* const given = std::getenv("OMP_NUM_THREADS");
  if (ranks.local_world > 1 && !threads.threads && !given)
    threads.threads = std::max(1, allowed_cores() / ranks.local_world);
  const std::string few = apply(threads, ranks.local_world, ranks.local_rank);
  if (!few.empty()) notes.push_back(few);
  device = choose_device(plan, ranks, notes);
  configure_allocator(Device::cpu, plan.allocator);
  if (device != Device::cpu) configure_allocator(device, plan.allocator);
  most_pixels() = plan.data.loader.batch.max_pixels;
  anomaly().on = plan.debug.anomaly;
  Mutex::collect_stats(plan.debug.lock_stats);
  const std::string shared =
      ranks.local_world > 1 ? cat(" that ", ranks.local_world, " ranks share") : "";
  notes.push_back(cat("threads: ", omp_get_max_threads(), " of ", count_of(allowed_cores(), "core"),
                      shared, ", ", cpu_model()));
  if (ranks.launcher == "torchrun" && given && given == std::string("1"))
    notes.emplace_back("OMP_NUM_THREADS=1: set by torchrun, unless you did; export another number");
}

static void check_metrics(const Session& session) {
  const Plan& plan = session.plan;
  const int64_t classes = session.test_set->info().classes;
  std::map<std::string, int64_t> known = {{"none", 0}, {"loss", 0}};
  std::string names = "loss";
  for (const Choice<MakeMetric>& choice : plan.eval.metrics) {
    const Metric metric = choice.make();
    CHECK(known.emplace(metric.name, metric.min_classes).second, "eval.metrics: ", metric.name,
          " is named twice");
    CHECK(metric.fits(classes), "eval.metrics: ", metric.name, " needs targets that are ",
          classes ? "values" : "classes", ", and those of ", plan.data.dataset.name(), " are ",
          classes ? "classes; use  eval.metrics: [accuracy]" : "values; use  eval.metrics: [r2]");
    names += ", " + metric.name;
  }
  const std::string watched = session.watched_metric();
  for (const auto& [option, metric] :
       {std::pair("target.metric", plan.target.metric), std::pair("ckpt.best", plan.ckpt.best),
        std::pair("schedule.metric", watched.empty() ? "none" : watched)}) {
    const auto found = known.find(metric);
    CHECK(found != known.end(), option, ": ", on_one_line(metric),
          " is not evaluated; eval.metrics has ", names);
    CHECK(classes == 0 || classes >= found->second, option, ": ", metric, " needs ", found->second,
          " classes or more, and ", plan.data.dataset.name(), " has ", classes, "; use accuracy");
  }
}

// Throws unless the loss takes targets like those of the data set. Tries the loss on one sample of
// zeros, with a varying axis as short as possible.
static void check_loss(const Session& session) {
  const DatasetInfo& info = session.train_set->info();
  const auto zeros = [&](const Shape& sample, DType dtype) {
    Shape shape = with_rows(1, sample);
    if (info.target.varies) shape[1] = 1;
    return full(shape, 0, dtype);
  };
  LossOptions loss = session.plan.loss;
  loss.fused = false;  // a fused loss would count as the toggle's footprint
  criterion(zeros(info.output(), DType::f32), zeros(info.target.shape, info.target.dtype), loss);
}

static void note_idle_options(const Session& session, std::vector<std::string>& notes) {
  const Plan& plan = session.plan;
  const int64_t classes = session.test_set->info().classes;
  for (const Choice<MakeMetric>& choice : plan.eval.metrics)
    if (const Metric metric = choice.make(); plan.eval.every && !metric.computed_for(classes))
      notes.push_back(cat(metric.name, ": not evaluated, needs ", metric.min_classes,
                          " classes or more, and ", plan.data.dataset.name(), " has ", classes));
  Names unevaluated;
  if (plan.train.patience) unevaluated.emplace_back("train.patience");
  if (plan.ckpt.best != "none") unevaluated.emplace_back("ckpt.best");
  if (plan.target.metric != "none") unevaluated.emplace_back("target.metric");
  if (!session.watched_metric().empty())
    unevaluated.push_back("schedule." + plan.schedule.curve.name());
  if (plan.eval.every == 0 && !unevaluated.empty())
    notes.push_back(joined(unevaluated) + ": no effect without evaluations (eval.every is 0)");
  if (plan.target.metric == "none" && plan.target.value != 0)
    notes.emplace_back("target.value: no effect without target.metric");
  const bool varies = session.train_set->info().input.varies;
  if (!varies && plan.data.loader.sampler.length_buckets != LengthBuckets::off)
    notes.emplace_back("length_buckets: no effect, all samples have one length");
  if (!varies && !plan.data.loader.batch.pad_to.empty())
    notes.emplace_back("data.pad_to: no effect, all samples have one length");
  if (plan.model.sync_bn && session.ranks.world == 1)
    notes.emplace_back("model.sync_bn: no effect with a single rank");
  if (plan.profile.window.empty() && plan.profile.exit_after)
    notes.emplace_back("profile.exit_after: no effect without profile.window");
}

// Evaluation runs after an epoch of training. This check reports problems of the test set before
// training.
void Session::check() const {
  const std::string& name = plan.data.dataset.name();
  const int64_t known = train_set->info().classes, classes = test_set->info().classes;
  if (test_set != train_set) {
    const Shape tested = test_loader->transforms().shape();
    const bool images = train_set->info().images();
    const char* const what = images ? "images" : "samples";
    if (!(input == tested))
      fail(Exit::data, "data.name ", name, ": after the transforms its test ", what, " are ",
           tested, ", its training ", what, " ", input,
           images ? "; make the sizes equal with  resize  in data.transforms" : "");
    if (known != classes)
      fail(Exit::data, "data.name ", name, ": its test set has ", classes,
           " classes, its training set ", known, "; use the test set that belongs to it");
    check_sizes(*test_loader);
  }
  check_metrics(*this);
  check_loss(*this);
  CHECK(plan.sim.compute == 0 || device == Device::cpu,
        "sim.compute: plants computing on a CPU; write  device: cpu");
  CHECK(plan.sim.load == 0 || plan.data.loader.batch.sim_latency_us == 0,
        "sim.load and data.sim_latency_us both plant the time of loading; leave one out");
  // Each rank must contribute samples to the statistics. A rank without any takes one of weight 0.
  const int64_t last = loader->sampler().joint_size(loader->batches() - 1);
  CHECK(!plan.model.sync_bn || last >= ranks.world, "model.sync_bn: with  dist.uneven: join  ",
        last, " of ", ranks.world,
        " ranks have a sample in the last batch of an epoch; write  dist.uneven: drop  or  pad");
}

static void note_groups(const Session& session, Names& notes) {
  const OptimizerOptions options = session.optimizer_options();
  for (size_t group = 0; group < options.groups.size(); ++group) {
    Names names;
    for (const NamedTensor& p : session.parameters)
      if (group_of(options, p.name) == group) names.push_back(p.name);
    const std::string count = count_of(std::ssize(names), "parameter");
    if (names.size() > 4) names.resize(4), names.emplace_back("...");
    notes.push_back(cat("optimizer.groups: ", options.groups[group].parameters, ": ", count, ": ",
                        joined(names)));
  }
  const auto updates = double(session.total_steps());
  const double left = std::pow(options.ema_decay, updates);
  if (updates > 0 && left > 0.05)
    notes.push_back(fmt::format(
        "warning: optimizer.ema_decay: after {:.0f} updates, {:.0f} % of the average are still the "
        "first weights; use at most {:.3g}",
        updates, 100 * left, std::pow(0.01, 1 / updates)));
}

static void note_transforms(const Session& session, Names& notes) {
  const auto transforms = with_statistics(session.plan.data.transforms, session.train_set->info());
  const Json listed = to_json(transforms);
  notes.push_back("transforms: " + to_line(listed));
  for (const Json& item : listed)
    if (const Json mean = item.value("mean", Json::array());
        !mean.empty() && *std::ranges::max_element(mean) > 1)
      notes.push_back(cat("warning: normalize: mean ", to_line(mean),
                          ", but pixels are scaled to 0..1 before; divide mean and std by 255"));
}

static void note_lengths(const Session& session, Names& notes) {
  const DatasetInfo& info = session.train_set->info();
  notes.push_back(cat("samples: ", info.input.dtype, " ", info.input.shape,
                      info.input.varies ? " at the longest" : "", ", targets: ", info.target.dtype,
                      " ", info.target.shape));
  if (session.loader->sampler().length_buckets() == LengthBuckets::sorted)
    notes.emplace_back(
        "warning: length_buckets: sorted  loses the shuffle: each epoch goes from the shortest to "
        "the longest sample; buckets does not");
}

void Session::describe() {
  notes.push_back(fmt::format("data: {}, {} to train on, {} to test", plan.data.dataset.name(),
                              train_set->size(), test_set == train_set ? 0 : test_set->size()));
  if (train_set->info().classes == 1)
    notes.push_back(cat("warning: data: only one class, ", class_names(train_set->info())[0],
                        ", so every answer is right; a folder per class is needed"));
  for (const auto& set : {train_set, test_set})
    for (const std::string& note : set->notes())
      if (!std::ranges::count(notes, note)) notes.push_back(note);
  train_set->info().images() ? note_transforms(*this, notes) : note_lengths(*this, notes);
  const int64_t warmup = warmup_of(plan.schedule, steps_per_epoch()), steps = total_steps();
  if (steps && warmup >= steps)
    notes.push_back(cat("schedule: the run ends after ", steps, " of ", count_of(warmup, "update"),
                        " of warm-up, so its rate stays below the peak"));
  if (const std::string planted = planted_load(plan); !planted.empty()) notes.push_back(planted);
  note_idle_options(*this, notes);
  note_groups(*this, notes);
  if (!plan.profile.window.empty() && trace::marker.push)
    notes.push_back(profiler_note(plan.profile));
}

}  // namespace bellows
