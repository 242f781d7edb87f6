#include "trainer/session/session.h"
#include <algorithm>
#include "core/base/words.h"
#include "core/tensor/copy.h"
#include "data/images/transform.h"
#include "data/loader/loader.h"
#include "ops/matmul/matmul.h"
#include "trainer/session/planted_load.h"
#include "trainer/session/scattered_feed.h"

namespace bellows {

namespace {
class DescribedDataset : public Dataset {
 public:
  explicit DescribedDataset(const TrainingSetInfo& trained)
      : Dataset(trained.info), size_(trained.samples) {}
  int64_t size() const override { return size_; }
  Sample at_least(int64_t, const ViewOf&, Scratch&) const override {
    fail(Exit::data, "the training set is not open");
  }
  std::string origin(int64_t) const override { return "the checkpoint"; }

 private:
  int64_t size_;
};
}  // namespace

static DatasetPtr open(const DataOptions& data, Split split,
                       const std::optional<TrainingSetInfo>& trained) {
  if (trained && split == Split::train) return std::make_shared<DescribedDataset>(*trained);
  if (!trained) return data.dataset.make({split});
  return data.dataset.make({split, class_names(trained->info), trained->info.columns});
}

// Returns the training set in place of a missing test set if training evaluates nothing.
static DatasetPtr open_test_set(const Plan& plan, const std::optional<TrainingSetInfo>& trained,
                                const DatasetPtr& train_set, Names& notes) {
  try {
    return open(plan.data, Split::test, trained);
  } catch (const Error& error) {
    if (trained || plan.eval.every || error.exit != Exit::data) throw;
    notes.push_back(cat("data: no test set, which eval.every=0 does not need: ", error.what()));
    return train_set;
  }
}

OptimizerOptions Session::optimizer_options() const {
  OptimizerOptions options = plan.optimizer;
  options.norms = norms;
  const bool tolerant =
      plan.train.on_nonfinite == OnNonfinite::skip ||
      (plan.train.on_nonfinite == OnNonfinite::stop && plan.train.max_nonfinite > 1);
  options.skip_nonfinite |= tolerant || plan.amp.scales();
  return options;
}

static int64_t count_steps(const TrainOptions& train, int64_t per_epoch) {
  const int64_t all = train.epochs * per_epoch;
  return train.max_iters ? std::min(all, train.max_iters) : all;
}

static Tensor make_rates(const Plan& plan, const Choice<UpdateRule()>& rule, int64_t per_epoch,
                         double factor = 1) {
  const int64_t updates = std::max<int64_t>(1, count_steps(plan.train, per_epoch));
  return lr_table(plan.schedule, rule.make().lr, updates, per_epoch, factor);
}
static std::vector<Tensor> make_group_rates(const Plan& plan, int64_t per_epoch,
                                            double factor = 1) {
  std::vector<Tensor> tables;
  for (const GroupOptions& group : plan.optimizer.groups)
    tables.push_back(make_rates(plan, group.rule, per_epoch, factor));
  return tables;
}

std::string Session::watched_metric() const { return plan.schedule.curve.make(Horizon{}).metric; }

// Pins memory only if a GPU copies from it.
static LoaderOptions loader_options(const Plan& plan, Device device) {
  LoaderOptions options = plan.data.loader;
  options.batch.pin_memory &= device != Device::cpu;
  options.batch.sim_latency_us = planted_latency_us(plan);
  return options;
}

Session::Session(const Plan& plan, const std::optional<TrainingSetInfo>& trained)
    : plan(plan), tuning(plan.train, plan.kernels) {
  if (plan.kernels.blas == Blas::openblas) openblas::require();
  if (!trained) ranks = this_rank(plan.dist);
  try {
    build(trained);
  } catch (const std::exception& error) {
    abort(error.what());
    throw;
  }
}

// Each rank tries a part of the samples, and all ranks leave out the same samples.
void Session::leave_out_damaged(bool trained) {
  const OnDamaged on_damaged = plan.data.loader.batch.on_damaged;
  AcrossRanks all{ranks.rank, ranks.world};
  if (ranks.world > 1)
    all.sum = [this](const Tensor& damaged) {
      host_group().all_reduce(damaged, Reduction::sum, "damaged samples").wait();
    };
  if (on_damaged == OnDamaged::skip)
    agree("samples", {{"training set samples", std::to_string(train_set->size())},
                      {"test set samples", std::to_string(test_set->size())}});
  const bool tests = test_set != train_set;
  if (!trained) train_set = without_damaged(train_set, on_damaged, all);
  test_set = tests ? without_damaged(test_set, on_damaged, all) : train_set;
}

// The group comes first, so that other ranks learn of any later error.
void Session::build(const std::optional<TrainingSetInfo>& trained) {
  prepare_process();
  meet_ranks();

  const bool tests = !trained || trained->tests;
  train_set = open(plan.data, Split::train, trained);
  test_set = tests ? open_test_set(plan, trained, train_set, notes) : train_set;
  leave_out_damaged(trained.has_value());
  const RankShare share{.rank = ranks.rank, .world = ranks.world, .uneven = plan.dist.uneven};
  RankShare each_once = share;
  each_once.uneven = Uneven::join;
  LoaderOptions training = loader_options(plan, device), testing = training;
  training.sampler.drop_last &= !trained;  // a set that is not opened may be of any size
  testing.sampler.shuffle = testing.sampler.drop_last = testing.batch.augment = false;
  if (plan.eval.batch_size) testing.sampler.batch_size = plan.eval.batch_size;
  loader.emplace(train_set, plan.data.transforms, training, plan.seed, share);
  test_loader.emplace(test_set, plan.data.transforms, testing, plan.seed, each_once);
  input = loader->transforms().shape();

  state = std::make_shared<DeviceStepState>(device);
  loss_terms = LossTerms(plan.loss, device);
  model = make_model();
  parameters = model->parameters();
  if (ranks.world > 1) agree("start", facts());
  feed = training_feed();
  test_feed = feed_from(*test_loader);

  rates = make_rates(plan, plan.optimizer.rule, steps_per_epoch());
  optimizer.emplace(optimizer_options(), parameters, rates,
                    make_group_rates(plan, steps_per_epoch()));
  ema.emplace(plan.optimizer.ema_decay, parameters, model->buffers());
  scaler.emplace(plan.amp.scales(), plan.amp.scaler, *state);
  reducer.emplace(*group, plan.dist, parameters, model->buffers());

  check();
  describe();
}

static void say_once(const std::vector<std::string>& lines, std::vector<std::string>& notes) {
  for (auto line = lines.begin(); line != lines.end(); ++line) {
    if (std::find(lines.begin(), line, *line) != line) continue;
    const auto times = std::ranges::count(lines, *line);
    notes.push_back(times > 1 ? cat(*line, " (", times, " times)") : *line);
  }
}

// Distance between the seeds of two ranks. Layers draw different masks on each rank, since each has
// other samples.
static constexpr uint64_t kRankStride = 0x9e3779b97f4a7c15;

// Freezes the statistics of norms whose group says so. Returns the paths of all norms.
static Names settle_norms(Module& model, const Plan& plan) {
  OptimizerOptions options = plan.optimizer;
  each_sequential(model, [&](const std::string& path, const Sequential& list) {
    for (const Child& child : list.children()) {
      auto* const norm = dynamic_cast<BatchNormLayer*>(child.module.get());
      if (!norm) continue;
      options.norms.push_back(path_below(path, child.name));
      const size_t group = group_of(options, options.norms.back() + ".bias");
      if (group < options.groups.size() && options.groups[group].freeze_statistics)
        norm->freeze_statistics();
    }
  });
  return options.norms;
}

ModulePtr Session::make_model() {
  const int64_t begin = trace::now_ns();
  const ModelContext context{
      {.shape = input,
       .seed = plan.seed + kRankStride * ranks.rank,
       .state = state,
       .vectorized = plan.model.vectorized,
       .device = device,
       .format = plan.model.channels_last ? kNHWC : kNCHW,
       .group = plan.model.sync_bn && ranks.world > 1 ? group.get() : nullptr,
       .lengths = lengths},
      train_set->info().output()[-1],
      train_set->info().output()};
  ModulePtr made = plan.model.model.make(context);
  made->each("", [&](const std::string&, const Module& layer) { draws_ |= layer.draws(); });
  normed_convs = find_normed_convs(*made);
  norms = settle_norms(*made, plan);
  const std::vector<std::string> changes = rewrite(*made, plan.model.rewrites);
  made->name_all("");
  made->initialize(plan.seed);
  int64_t weights = 0;
  for (const NamedTensor& p : made->parameters()) weights += p.tensor.numel();
  notes.push_back(cat("model: ", plan.model.model.name(), ", ", count_of(weights, "parameter")));
  say_once(changes, notes);
  model_s = (trace::now_ns() - begin) * 1e-9;
  return made;
}

// Returns the dtype of images that the first conv2d would convert to. A captured update copies its
// batch in any case, unless a kernel of the feed makes it.
DType Session::wanted() const {
  const bool made_on_device =
      plan.data.loader.feed.device_augment || (plan.train.cuda_graph && !by_root());
  return made_on_device && model->begins_with_conv2d() ? plan.amp.low() : DType::f32;
}

// On the CPU the loader itself may be the feed.
Feed* Session::feed_from(Loader& loader) {
  std::unique_ptr<Feed> made = make_feed(device, loader, notes, wanted());
  if (!made) return &loader;
  return device_feeds_.emplace_back(std::move(made)).get();
}

Feed* Session::training_feed() {
  if (!by_root()) return feed_from(*loader);
  CHECK(train_set->info().images(), "toggles.ddp: off  sends images only; write  toggles.ddp: on");
  std::vector<Feed*> feeds;
  for (int rank = 0; ranks.rank == 0 && rank < ranks.world; ++rank) {
    RankShare share = loader->sampler().share();
    share.rank = rank;
    Loader& its =
        rank == 0
            ? *loader
            : *other_loaders_.emplace_back(std::make_unique<Loader>(
                  train_set, plan.data.transforms, loader_options(plan, device), plan.seed, share));
    feeds.push_back(feed_from(its));
  }
  auto scattered =
      scattered_feed(*group, *loader, feeds, model_buffers_on(device, *loader, wanted()));
  return device_feeds_.emplace_back(std::move(scattered)).get();
}

Batch Session::zeros_like_batches(int64_t rows) const {
  const BatchForm form = loader->source().form(rows, input[0]);
  Batch zeros =
      model_buffers_on(device, *loader, wanted(), rows).free(with_rows(rows, input), form.y);
  if (zeros.lengths.defined()) fill(zeros.lengths, double(input[0]));
  if (zeros.divisor.defined()) fill(zeros.divisor, double(form.y.numel()));
  return zeros;
}

int64_t Session::joint_batch() const { return plan.data.loader.sampler.batch_size * ranks.world; }

int64_t Session::total_steps() const { return count_steps(plan.train, steps_per_epoch()); }

double Session::last_rate() const {
  return lr_at(rates, std::max<int64_t>(0, state->read().schedule_index() - 1));
}

const std::string& Session::data_fingerprint() const {
  if (data_fingerprint_.empty()) data_fingerprint_ = fingerprint(*train_set);
  return data_fingerprint_;
}

double Session::next_rate() const { return lr_at(rates, state->read().schedule_index()); }

double Session::next_rate(const Plan& other) const {
  const Tensor table =
      make_rates(other, other.optimizer.rule, steps_per_epoch(), rate_state_.factor);
  return lr_at(table, state->read().schedule_index());
}

void Session::set_rate_state(const RateState& state) {
  rate_state_ = state;
  const double factor = state.factor;
  const Tensor table = make_rates(plan, plan.optimizer.rule, steps_per_epoch(), factor);
  copy_into(rates, table);
  optimizer->set_rates(table, make_group_rates(plan, steps_per_epoch(), factor));
}

bool Session::react(const MetricValue& now) {
  RateState next = rate_state_;
  plan.schedule.curve.make(Horizon{}).react(next, now);
  const double before = next_rate();
  if (next.factor == rate_state_.factor) return rate_state_ = next, false;
  set_rate_state(next);
  return next_rate() != before;
}

Tensor Session::loss_of(const Batch& batch) {
  const trace::Range range("forward");
  const Kernels use(kernels());
  const Autocast precision(plan.amp.low());
  if (draws_) state->begin_forward();
  lengths->value = batch.lengths;
  NamedTensors terms;
  const Tensor loss = criterion(
      {.output = (*model)(batch.x), .target = batch.y, .divisor = batch.divisor, .terms = &terms},
      plan.loss);
  loss_terms.add(terms, batch);
  return loss;
}

}  // namespace bellows
