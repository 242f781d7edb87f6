#include "trainer/state/training_state.h"
#include <fmt/format.h>
#include <algorithm>
#include "core/base/crc32c.h"
#include "core/config/values.h"
#include "core/device/threads.h"
#include "core/tensor/copy.h"
#include "trainer/session/data_card.h"
#include "trainer/session/record.h"
#include "trainer/session/session.h"

namespace bellows {

static constexpr const char* kFormat = "bellows-checkpoint";
static constexpr int kVersion = 1;
static constexpr const char *kDataset = "dataset", *kDroppedBiases = "dropped_biases",
                            *kRanks = "ranks";
static const std::string kOptimizer = "optimizer/";  // no module path has a slash

NamedTensors model_tensors(const Session& session) {
  NamedTensors all = session.parameters;
  for (const NamedTensor& buffer : session.model->buffers()) all.push_back(buffer);
  return all;
}

NamedTensors state_tensors(const Session& session) {
  NamedTensors all = model_tensors(session);
  for (const auto& [name, tensor] : session.optimizer->state())
    all.push_back({kOptimizer + name, tensor});
  for (const NamedTensor& average : session.ema->state()) all.push_back(average);
  return all;
}

NamedTensors model_part(const NamedTensors& saved) {
  const std::string ema = Ema::kPrefix;
  NamedTensors model, averages;
  for (const auto& [name, tensor] : saved)
    if (name.starts_with(ema))
      averages.push_back({name.substr(ema.size()), tensor});
    else if (!name.starts_with(kOptimizer))
      model.push_back({name, tensor});
  return averages.empty() ? model : averages;
}

// found_inf is left out, because it belongs to a finished update.
static void visit(Record& r, StepState& s) {
  int64_t schedule_index = s.schedule_index();
  r("forwards", s.forwards);
  r("applied", s.applied);
  r("skipped", s.skipped);
  r("schedule_index", schedule_index);
  r("loss_scale", s.loss_scale);
  r.or_null<float>("grad_norm", s.grad_norm, INFINITY);
  r("inverse_scale", s.inverse_scale);
  r("good_updates", s.good_updates);
  s.shift = schedule_index - s.applied;
}

// Version 0.1 also summed losses that were not finite, and wrote such a sum as null.
static void visit(Record& r, LossSum& losses) {
  r.or_null<double>("sum", losses.sum, NAN);
  r("count", losses.count);
  r("nonfinite", losses.nonfinite);
}

static void visit(Record& r, Best& best) {
  r("step", best.step, {-1, 1e12});
  r("epoch", best.epoch);
  r("value", best.value);
  r("regular", best.regular);
  r("evaluations_since", best.evaluations_since);
}

static void visit(Record& r, RateState& rates) {
  r("factor", rates.factor, {0, 1});
  r("best", rates.best);
  r("bad_evaluations", rates.bad_evaluations);
}

static void visit(Record& r, Position& p) {
  r("epoch", p.epoch);
  r("batch", p.batch);
  r("step", p.step);
  r("elapsed_s", p.elapsed_s);
  r("load_s", p.load_s);
  r("step_s", p.step_s);
  r("eval_s", p.eval_s);
  r("save_s", p.save_s);
  r("target_s", p.target_s);
  r("target_samples", p.target_samples);
  r("target_epochs", p.target_epochs);
  r("evaluated", p.evaluated, {-1, 1e12});
  r.group("best", p.best);
  r.group("window", p.window);
  r.group("of_epoch", p.of_epoch);
}

static Names dropped_biases(const Session& session) {
  Names names;
  for (const NormedConv& conv : session.normed_convs)
    if (conv.has_bias && session.plan.model.rewrites.on("drop_conv_bias"))
      names.push_back(conv.conv + ".bias");
  return names;
}

Metadata state_metadata(const Session& session, const Position& position) {
  const DatasetInfo& data = session.train_set->info();
  Json plan = Json::object();
  for (const auto& [key, value] : dump(session.plan)) plan[key] = value.text;
  return {{"format", kFormat},
          {"version", std::to_string(kVersion)},
          {"position", to_line(to_record(position))},
          {"step_state", to_line(to_record(session.state->read()))},
          {"rate_state", to_line(to_record(session.rate_state()))},
          {"plan", to_line(plan)},
          {"data", session.data_fingerprint()},
          {kDataset, to_line(data_card(*session.train_set))},
          {kClassNames, to_line(Json(data.names))},
          {kDroppedBiases, to_line(Json(dropped_biases(session)))},
          {"threads", std::to_string(pool_threads())},
          {kRanks, std::to_string(session.ranks.world)}};
}

static const std::string& entry(const SafeTensors& saved, const std::string& key) {
  const auto found = saved.metadata.find(key);
  if (found == saved.metadata.end())
    fail(Exit::checkpoint, "not a checkpoint of a run: '", key,
         "' is missing in its metadata; an exported file has weights only:  train.weights=FILE");
  return found->second;
}

// A file with valid checksums was written by this program or by an attacker. In both cases an
// exception of the JSON library must not become an internal error.
template <class Read> static auto read_entry(const SafeTensors& saved, const char* key, Read read) {
  std::string why;
  const Json json = parse_json(entry(saved, key), &why);
  try {
    if (why.empty()) return read(json);
  } catch (const Json::exception& error) {
    why = error.what();
  }
  fail(Exit::checkpoint, "the checkpoint's '", key, "' cannot be read: ", why);
}

static void check_format(const SafeTensors& saved) {
  const std::string &format = entry(saved, "format"), &version = entry(saved, "version");
  if (format != kFormat || version != std::to_string(kVersion))
    fail(Exit::checkpoint, "written by version ", version, " of ", format, ", this program reads ",
         kVersion, " of ", kFormat);
}

Plan read_plan(const SafeTensors& saved) {
  check_format(saved);
  return read_entry(saved, "plan", [](const Json& json) {
    Values values;
    for (const auto& [key, text] : json.items())
      values[key] = {text.get<std::string>(), "the checkpoint's plan"};
    try {
      return load(Plan{}, values);
    } catch (const Error& error) {
      fail(Exit::checkpoint, error.what());
    }
  });
}

int64_t read_ranks(const SafeTensors& saved) {
  const auto ranks =
      read_entry(saved, kRanks, [](const Json& json) { return json.get<int64_t>(); });
  if (ranks < 1 || ranks > 1'000'000)
    fail(Exit::checkpoint, "the checkpoint's 'ranks' is ", ranks, ", not a number of ranks");
  return ranks;
}

static Names names_in(const SafeTensors& saved, const char* key) {
  return read_entry(saved, key, [](const Json& list) { return list.get<Names>(); });
}

Names dropped_biases(const SafeTensors& saved) { return names_in(saved, kDroppedBiases); }

TrainingSetInfo trained_on(const SafeTensors& saved) {
  const Names names = names_in(saved, kClassNames.c_str());
  return read_entry(saved, kDataset, [&](const Json& card) { return read_data_card(card, names); });
}

// Adds the members that checkpoints of earlier versions lack.
static Position read_position(Json json) {
  for (const char* part : {"load_s", "step_s", "eval_s", "save_s"}) json.emplace(part, 0);
  for (const char* sum : {"window", "of_epoch"}) json.at(sum).emplace("nonfinite", 0);
  return from_record<Position>(json);
}

// Refuses a batch that no epoch has: it would never be reached, and the run would not end. In a
// branch the length of an epoch may have changed.
static void check_position(const Position& at, const StepState& state, int64_t per_epoch,
                           Resume resume) {
  const bool in_epoch = at.batch <= per_epoch && at.step == at.epoch * per_epoch + at.batch;
  const int64_t index = state.schedule_index();
  const bool in_run = at.epoch <= at.step && at.batch <= at.step && index <= at.step;
  if (!in_run || (resume == Resume::same_run && !in_epoch))
    fail(Exit::checkpoint, "the checkpoint's position does not fit this run: epoch ", at.epoch,
         ", batch ", at.batch, ", step ", at.step, ", update ", index,
         " of the schedule, where an epoch has ", per_epoch);
}

// Labels are indices into the names. Names of folders may not be UTF-8, so they are compared as
// JSON stores them. Any program may have written the metadata.
std::string other_classes(const Names& given, const Metadata& metadata) {
  const auto found = metadata.find(kClassNames);
  const Json list = found == metadata.end() ? Json() : Json::parse(found->second, nullptr, false);
  const auto is_text = [](const Json& name) { return name.is_string(); };
  if (!list.is_array() || list.empty() || !std::ranges::all_of(list, is_text)) return "";
  const auto then = list.get<Names>(), here = Json::parse(to_line(Json(given))).get<Names>();
  if (then == here) return "";
  const auto same = std::ranges::mismatch(then, here).in1 - then.begin();
  const auto from = std::max(then.size(), here.size()) > 8 ? same : 0;
  const auto listed = [&](const Names& all) {
    const auto to = std::min(std::ssize(all), from + 8);
    return joined({all.begin() + from, all.begin() + to}) + (to < std::ssize(all) ? ", ..." : "");
  };
  return cat("the classes differ from those of the model: ", here.size(), " classes",
             from ? cat(", from ", from + 1, " on: ") : ": ", listed(here), "; the model has ",
             then.size(), ": ", listed(then));
}

void restore_model(Session& session, const SafeTensors& saved) {
  const Names& names = session.test_set->info().names;
  const std::string other = names.empty() ? "" : other_classes(names, saved.metadata);
  if (!other.empty()) fail(Exit::data, other);
  copy_saved(model_tensors(session), by_name(model_part(saved.tensors)));
  session.ema->restart();
}

// In a branch, updates may have other samples, and epochs another number of updates. Then the epoch
// in progress starts again. The schedule keeps its place, as a share of the steps so far.
static void restart_epoch(Position& at, StepState& state, const Session& session, bool same_samples,
                          std::vector<std::string>& notes) {
  const int64_t per_epoch = session.steps_per_epoch(), step = at.epoch * per_epoch;
  if ((at.batch == 0 || same_samples) && at.step == step + at.batch && at.batch <= per_epoch)
    return;
  notes.push_back(cat("resume: an epoch has ", count_of(per_epoch, "update"), " of ",
                      count_of(session.joint_batch(), "sample"), " now; epoch ", at.epoch + 1,
                      " begins, and step ", at.step, " counts as step ", step));
  const double share = double(state.schedule_index()) / double(std::max<int64_t>(1, at.step));
  state.shift = std::llround(share * double(step)) - state.applied;
  at.batch = 0;
  at.step = step;
  at.evaluated = -1;
  at.window = at.of_epoch = {};
}

// A branch that turns the average on starts it from the weights, and one that turns it off drops
// it.
static void fit_averages(const Ema& ema, TensorsByName& saved) {
  const std::string prefix = Ema::kPrefix;
  if (ema.state().empty())
    std::erase_if(saved, [&](const auto& t) { return t.first.starts_with(prefix); });
  for (const NamedTensor& average : ema.state())
    if (const auto value = saved.find(average.name.substr(prefix.size())); value != saved.end())
      saved.emplace(average.name, value->second);
}

Position restore(Session& session, const SafeTensors& saved, std::vector<std::string>& notes,
                 Resume resume) {
  check_format(saved);
  auto position = read_entry(saved, "position", read_position);
  auto state = read_entry(saved, "step_state", from_record<StepState>);
  auto rates = read_entry(saved, "rate_state", from_record<RateState>);
  const Plan before = read_plan(saved);
  // If the data set may have other samples, the epoch in progress starts again.
  if (before.data.loader.batch.on_damaged != session.plan.data.loader.batch.on_damaged)
    resume = Resume::branch;
  const std::string &now = session.data_fingerprint(), &then = entry(saved, "data");
  if (then != now && resume == Resume::branch)
    notes.push_back(cat("resume: changed training set: ", then, " -> ", now));
  else if (then != now)
    fail(Exit::data, "the training set is not the one of the checkpoint: ", now, " now, ", then,
         " then; to train on with other data, resume from a checkpoint file");
  check_position(position, state, session.steps_per_epoch(), resume);
  TensorsByName tensors = by_name(saved.tensors);
  if (resume == Resume::branch) fit_averages(*session.ema, tensors);
  copy_saved(state_tensors(session), tensors, "the checkpoint",
             "; or start a new run from the weights alone with  train.weights=FILE");
  if (resume == Resume::branch) {
    const SamplerOptions &was = before.data.loader.sampler, &is = session.plan.data.loader.sampler;
    const bool same_samples = then == now && before.seed == session.plan.seed &&
                              was.shuffle == is.shuffle &&
                              was.device_randperm == is.device_randperm &&
                              read_ranks(saved) * was.batch_size == session.joint_batch();
    restart_epoch(position, state, session, same_samples, notes);
    position.best = {};
    position.target_s = -1;
    rates = {.factor = rates.factor};
  }
  session.set_rate_state(rates);
  const bool other_precision = session.plan.amp.scales() != before.amp.scales();
  if (other_precision || session.plan.amp.scaler.init_scale != before.amp.scaler.init_scale) {
    const StepState fresh = session.state->read();
    state.loss_scale = fresh.loss_scale;
    state.inverse_scale = fresh.inverse_scale;
    state.good_updates = 0;
    notes.push_back(
        cat("amp: ", other_precision ? "the checkpoint was trained in another precision; " : "",
            "the loss scale starts at ", fresh.loss_scale));
  }
  session.state->write(state);
  const std::string threads = std::to_string(pool_threads());
  if (entry(saved, "threads") != threads && !session.plan.kernels.deterministic)
    notes.push_back(cat("threads: ", entry(saved, "threads"), " before, ", threads,
                        " now; the result may differ in its last bits without  deterministic: on"));
  return position;
}

static uint32_t checksum(const NamedTensors& tensors) {
  uint32_t crc = 0;
  for (const auto& [name, tensor] : tensors) {
    const Tensor host = contiguous(to(Device::cpu, tensor.detach()));
    crc = crc32c(std::span(host.bytes(), host.nbytes()), crc);
  }
  return crc;
}

std::string model_hash(const Session& session) {
  return fmt::format("{:08x}", checksum(model_tensors(session)));
}

std::string state_hash(const Session& session) {
  const std::string steps = to_line(to_record(session.state->read()));
  const uint32_t crc = checksum(state_tensors(session));
  return fmt::format("{:08x}", crc32c(std::as_bytes(std::span(steps)), crc));
}

}  // namespace bellows
