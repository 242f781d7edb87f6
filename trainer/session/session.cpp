#include "trainer/session/session.h"
#include <fmt/format.h>
#include <omp.h>
#include "autograd/backward.h"
#include "core/base/mutex.h"
#include "core/base/plural.h"
#include "core/device/topology.h"
#include "core/tensor/copy.h"
#include "data/images/transform.h"
#include "data/loader/check_sizes.h"
#include "data/packed/packed_twin.h"
#include "ops/matmul/padded.h"
#include "optim/schedule.h"
#include "trainer/session/data_card.h"
#include "trainer/session/evaluate.h"
#include "trainer/session/profile_window.h"

namespace bellows {

static Device choose_device(const Plan& plan, std::vector<std::string>& notes) {
  if (plan.device == DeviceChoice::cpu) return notes.push_back("device: cpu"), Device::cpu;
  choose_gpu(plan.device.gpu.value_or(0));
  const std::string trouble = why_no_device(Device::cuda), wanted = plan.device.text();
  if (plan.device.kind == DeviceChoice::cuda) {
    CHECK(trouble.empty(), "device: ", wanted, ", but ", trouble, "; or write  device: auto");
    return notes.push_back("device: " + wanted), Device::cuda;
  }
  notes.push_back(trouble.empty() ? "device: auto -> cuda"
                                  : cat("device: auto -> cpu (", trouble, ")"));
  return trouble.empty() ? Device::cuda : Device::cpu;
}

// With a GPU, allocator.reserve_mb applies to the GPU only.
static AllocatorOptions host_options(AllocatorOptions options) {
  options.reserve_mb = 0;
  return options;
}

// Sets up process-wide state. Must run before anything allocates or opens a parallel region.
static Device prepare_process(const Plan& plan, std::vector<std::string>& notes) {
  if (const std::string few = apply(plan.threads); !few.empty()) notes.push_back(few);
  const Device device = choose_device(plan, notes);
  configure_allocator(device, plan.allocator);
  if (device != Device::cpu) configure_allocator(Device::cpu, host_options(plan.allocator));
  if (plan.allocator.reserve_mb && !plan.allocator.caching)
    notes.push_back("allocator.reserve_mb: no effect without  toggles.caching_allocator: on");
  anomaly().on = plan.debug.anomaly;
  Mutex::collect_stats(plan.debug.lock_stats);
  notes.push_back(cat("threads: ", omp_get_max_threads(), " of ", count_of(allowed_cores(), "core"),
                      ", ", cpu_model()));
  return device;
}

namespace {
// Replaces the training set of a trained model: description only, no samples.
class DescribedDataset : public Dataset {
 public:
  explicit DescribedDataset(const TrainingSetInfo& trained)
      : info_(trained.info), size_(trained.samples) {}
  int64_t size() const override { return size_; }
  const DatasetInfo& info() const override { return info_; }
  Sample at(int64_t, Scratch&) const override { fail(Exit::data, "the training set is not open"); }
  std::string origin(int64_t) const override { return "the checkpoint"; }

 private:
  DatasetInfo info_;
  int64_t size_;
};
}  // namespace

static std::shared_ptr<const Dataset> open(const DataOptions& data, Split split,
                                           std::vector<std::string>& notes) {
  if (!data.packed) return data.dataset.make({split});
  return packed_twin(data.dataset, split, {data.loader.on_damaged, data.loader.timeout_s}, notes);
}

static std::shared_ptr<const Dataset> open_train_set(const DataOptions& data,
                                                     const std::optional<TrainingSetInfo>& trained,
                                                     std::vector<std::string>& notes) {
  if (trained) return std::make_shared<DescribedDataset>(*trained);
  return open(data, Split::train, notes);
}

static std::shared_ptr<const Dataset> open_test_set(const DataOptions& data,
                                                    const std::optional<TrainingSetInfo>& trained,
                                                    std::shared_ptr<const Dataset> train_set,
                                                    std::vector<std::string>& notes) {
  if (trained && !trained->tests) return train_set;
  if (trained && !data.packed) return data.dataset.make({Split::test, class_names(trained->info)});
  return open(data, Split::test, notes);
}

static OptimizerOptions optimizer_options(const Plan& plan) {
  OptimizerOptions options = plan.optimizer;
  const bool tolerant =
      plan.train.on_nonfinite == OnNonfinite::skip ||
      (plan.train.on_nonfinite == OnNonfinite::stop && plan.train.max_nonfinite > 1);
  options.skip_nonfinite |= tolerant || plan.amp.scales();
  return options;
}

static int64_t steps_of(const TrainOptions& train, int64_t per_epoch) {
  const int64_t all = train.epochs * per_epoch;
  return train.max_iters ? std::min(all, train.max_iters) : all;
}

static Tensor rates_of(const Plan& plan, const Choice<UpdateRule()>& rule, double epochs,
                       int64_t per_epoch, double factor = 1) {
  const int64_t updates = std::max<int64_t>(1, steps_of(plan.train, per_epoch));
  const double over = epochs > 0 ? epochs : double(plan.train.epochs);
  return lr_table_of(plan.schedule, rule.make().lr, over, updates, per_epoch, factor);
}
static std::vector<Tensor> group_rates(const Plan& plan, int64_t per_epoch, double factor = 1) {
  std::vector<Tensor> tables;
  for (const GroupOptions& group : plan.optimizer.groups)
    tables.push_back(rates_of(plan, group.rule, group.epochs, per_epoch, factor));
  return tables;
}

// Returns null unless the schedule reacts to evaluations.
static auto reaction_of(const Plan& plan) { return plan.schedule.curve.make(Horizon{}).react; }

static void check_metric(const char* option, const std::string& metric, const Plan& plan,
                         int64_t classes) {
  CHECK(metric != "accuracy_top5" || classes >= kTop5From, option,
        ": accuracy_top5 is computed from ", kTop5From, " classes on, and ",
        plan.data.dataset.name(), " has ", classes, "; use accuracy");
}

// Returns an option that has no effect because evaluation is off, and why; "" if there is none.
static std::string unevaluated(const Plan& plan) {
  if (plan.eval.every) return "";
  const std::string option = plan.train.patience        ? "train.patience"
                             : plan.ckpt.best != "none" ? "ckpt.best"
                             : reaction_of(plan)        ? "schedule." + plan.schedule.curve.name()
                                                        : "";
  return option.empty() ? "" : option + ": no effect without evaluations (eval.every is 0)";
}

// Pins memory only if a GPU copies from it.
static LoaderOptions loader_options(const Plan& plan, Device device) {
  LoaderOptions options = plan.data.loader;
  options.pin_memory &= device != Device::cpu;
  return options;
}

static LoaderOptions test_options(const Plan& plan, Device device) {
  LoaderOptions options = loader_options(plan, device);
  options.shuffle = options.drop_last = options.augment = false;
  options.tta = plan.eval.tta;
  if (options.on_damaged == OnDamaged::skip) options.on_damaged = OnDamaged::leave_out;
  if (plan.eval.batch_size) options.batch_size = plan.eval.batch_size;
  return options;
}

// Evaluation runs after an epoch of training. This check reports problems of the test set before
// that.
static void check_test_set(const Session& session) {
  const std::string& name = session.plan.data.dataset.name();
  const Shape trained = session.input, tested = session.test_loader.transforms().shape();
  if (!(trained == tested))
    fail(Exit::data, "data.name ", name, ": after the transforms its test images are ", tested,
         ", its training images ", trained, "; make them alike with  resize  in data.transforms");
  const int64_t known = session.train_set->info().classes, asked = session.test_set->info().classes;
  if (known != asked)
    fail(Exit::data, "data.name ", name, ": its test set has ", asked,
         " classes, its training set ", known, "; give it the test set that belongs to it");
  check_sizes(session.test_loader);
}

Session::Session(const Plan& plan, const std::optional<TrainingSetInfo>& trained)
    : plan(plan),
      device(prepare_process(plan, notes)),
      train_set(open_train_set(plan.data, trained, notes)),
      test_set(open_test_set(plan.data, trained, train_set, notes)),
      loader(train_set, plan.data.transforms, loader_options(plan, device), plan.seed),
      test_loader(test_set, plan.data.transforms, test_options(plan, device), plan.seed),
      state(std::make_shared<DeviceStepState>(device)),
      input(Transforms(plan.data.transforms, train_set->info(), Use::evaluation).shape()),
      model(make_model(trained.has_value())),
      device_feed(make_feed(device, loader, notes, wanted())),
      test_device_feed(make_feed(device, test_loader, notes, wanted())),
      feed(device_feed ? *device_feed : loader),
      test_feed(test_device_feed ? *test_device_feed : test_loader),
      parameters(model->parameters()),
      rates(rates_of(plan, plan.optimizer.rule, 0, loader.batches())),
      optimizer(optimizer_options(plan), parameters, rates, group_rates(plan, loader.batches())),
      ema(plan.optimizer.ema_decay, parameters, model->buffers()),
      scaler(plan.amp.scales(), plan.amp.scaler, *state),
      group(DistOptions().backend.make()),
      reducer(*group, parameters) {
  if (!trained || trained->tests) check_test_set(*this);
  const int64_t classes = test_set->info().classes;
  check_metric("target.metric", plan.target.metric, plan, classes);
  check_metric("ckpt.best", plan.ckpt.best, plan, classes);
  notes.push_back(fmt::format("data: {}, {} to train on, {} to test", plan.data.dataset.name(),
                              train_set->size(), test_set->size()));
  for (const auto& set : {train_set, test_set})
    for (const std::string& note : set->notes())
      if (!std::ranges::count(notes, note)) notes.push_back(note);
  const auto transforms = with_statistics(plan.data.transforms, train_set->info());
  notes.push_back("transforms: " + to_line(to_json(transforms)));
  const int64_t warmup = warmup_of(plan.schedule, steps_per_epoch()), steps = total_steps();
  if (steps && warmup >= steps)
    notes.push_back(cat("schedule: the run ends after ", steps, " of ", count_of(warmup, "update"),
                        " of warm-up, so its rate stays below the peak"));
  if (const std::string idle = unevaluated(plan); !idle.empty()) notes.push_back(idle);
  if (!plan.profile.window.empty()) notes.push_back(profiler_command(plan.profile, plan.name));
}

// Prints equal changes as one line with their count.
static void say_once(const std::vector<std::string>& lines, std::vector<std::string>& notes) {
  std::vector<std::string> said;
  for (const std::string& line : lines) {
    if (std::ranges::count(said, line)) continue;
    said.push_back(line);
    const auto times = std::ranges::count(lines, line);
    notes.push_back(times > 1 ? cat(line, " (", times, " times)") : line);
  }
}

// Returns the first images as a batch without shuffling and augmentation.
static Tensor first_images(const Session& session, int64_t n) {
  LoaderOptions options;
  options.batch_size = std::min(n, session.train_set->size());
  options.shuffle = options.augment = false;
  options.on_damaged = session.plan.data.loader.on_damaged;
  options.scaled_decode = session.plan.data.loader.scaled_decode;
  Loader loader(session.train_set, session.plan.data.transforms, options, session.plan.seed);
  loader.start(0);
  Batch first;
  loader.next(first);
  return first.x;
}

// Throws unless the model has the same parameters for the smallest images. Then it also takes all
// sizes in between.
static void check_takes(const Choice<MakeModel>& model, ModelContext context, const Shape& smallest,
                        const Module& made) {
  const Shape largest = std::exchange(context.shape, smallest);
  context.device = Device::cpu;
  context.images = [&](int64_t) { return zeros(with_rows(1, smallest)); };
  NamedTensors other;
  try {
    other = model.make(context)->parameters();
  } catch (const Error& error) {
    fail(error.exit, "model ", model.name(), " takes no pictures of ", smallest,
         ", which progressive_resize makes of ", largest, ": ", error.what());
  }
  for (size_t i = 0; const NamedTensor& p : made.parameters()) {
    const bool is_there = i < other.size() && other[i].name == p.name;
    const Shape shape = is_there ? other[i++].tensor.shape() : Shape{0};
    CHECK(shape == p.tensor.shape(), "model ", model.name(), ": ", p.name, " is ", p.tensor.shape(),
          " for pictures of ", largest, " and ", shape, " for ", smallest,
          ", so progressive_resize has to go; or take one that ends in a mean over the picture "
          "(adaptive_avg_pool2d), with no option that chooses by size (model.stem: auto)");
  }
}

// A trained model is built with zeros instead of images: its filters are loaded later.
ModulePtr Session::make_model(bool trained) {
  const int64_t begin = trace::now_ns();
  const auto images = [this, trained](int64_t n) {
    return trained ? zeros(with_rows(1, input)) : first_images(*this, n);
  };
  const ModelContext context{{.shape = input,
                              .seed = plan.seed,
                              .state = state,
                              .vectorized = plan.model.vectorized,
                              .device = device,
                              .format = plan.model.channels_last ? kNHWC : kNCHW,
                              .images = images},
                             train_set->info().classes};
  ModulePtr made = plan.model.model.make(context);
  const Shape smallest = loader.transforms().shape(0);
  if (!(smallest == input)) check_takes(plan.model.model, context, smallest, *made);
  std::vector<std::string> changes;
  const auto note = [&](const std::vector<std::string>& lines) {
    changes.insert(changes.end(), lines.begin(), lines.end());
  };
  normed_convs = find_normed_convs(*made);
  if (plan.model.drop_conv_bias) note(drop_conv_bias(*made));
  for (const std::string& line : fuse(*made, plan.model.fuse)) note({"fused: " + line});
  if (plan.model.recompute) note(recompute_blocks(*made, plan.model.recompute));
  made->name_all("");
  made->initialize(plan.seed);
  int64_t weights = 0;
  for (const NamedTensor& p : made->parameters()) weights += p.tensor.numel();
  notes.push_back(cat("model: ", plan.model.model.name(), ", ", count_of(weights, "parameter")));
  say_once(changes, notes);
  model_s = (trace::now_ns() - begin) * 1e-9;
  return made;
}

// Input as the first conv2d would convert it: in the low precision, with padded channels.
ModelInput Session::wanted() const {
  if (!plan.data.loader.device_augment || !model->begins_with_conv2d()) return {};
  const DType dtype = plan.amp.low();
  return {dtype, padded::wide_channels(plan.kernels, dtype, device, input[0])};
}

Batch Session::zeros_like_batches(const Shape& x) const {
  return model_buffers_on(device, loader, wanted()).free(x);
}

int64_t Session::total_steps() const { return steps_of(plan.train, steps_per_epoch()); }

double Session::last_rate() const {
  return lr_at(rates, std::max<int64_t>(0, state->read().applied - 1));
}

double Session::next_rate() const { return lr_at(rates, state->read().applied); }

void Session::set_rate_state(const RateState& state) {
  rate_state_ = state;
  const double factor = state.factor;
  const Tensor table = rates_of(plan, plan.optimizer.rule, 0, steps_per_epoch(), factor);
  copy_into(rates, table);
  optimizer.set_rates(table, group_rates(plan, steps_per_epoch(), factor));
}

bool Session::react(const MetricValue& metric) {
  const auto reaction = reaction_of(plan);
  if (!reaction) return false;
  RateState next = rate_state_;
  reaction(next, metric);
  const double before = next_rate();
  if (next.factor == rate_state_.factor) return rate_state_ = next, false;
  set_rate_state(next);
  return next_rate() != before;
}

Tensor Session::loss_of(const Batch& batch) {
  const trace::Range range("forward");
  const Autocast precision(plan.amp.low());
  state->begin_forward();
  return criterion((*model)(batch.x), batch.y, plan.loss);
}

}  // namespace bellows
