#include "trainer/training_state.h"
#include <fmt/format.h>
#include <omp.h>
#include <algorithm>
#include <cmath>
#include "core/copy.h"
#include "core/crc32c.h"
#include "toggles/values.h"
#include "trainer/copy_saved.h"
#include "trainer/json.h"

namespace bellows {

static constexpr const char* kFormat = "bellows-checkpoint";
static constexpr int kVersion = 1;
static const std::string kOptimizer = "optimizer/";  // no module path has a slash

// ---- writing

NamedTensors model_tensors(const Session& session) {
  NamedTensors all = session.parameters;
  for (const NamedTensor& buffer : session.model->buffers()) all.push_back(buffer);
  return all;
}

NamedTensors state_tensors(const Session& session) {
  NamedTensors all = model_tensors(session);
  for (const auto& [name, tensor] : session.optimizer.state())
    all.push_back({kOptimizer + name, tensor});
  for (const NamedTensor& average : session.ema.state()) all.push_back(average);
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

static Json plan_json(const Plan& plan) {
  Json values = Json::object();
  for (const auto& [key, value] : dump(plan)) values[key] = value.text;
  return values;
}

static Json step_state_json(const StepState& s) {
  return {{"forwards", s.forwards},   {"applied", s.applied},
          {"skipped", s.skipped},     {"loss_scale", s.loss_scale},
          {"grad_norm", s.grad_norm}, {"inverse_scale", s.inverse_scale},
          {"found_inf", s.found_inf}, {"good_updates", s.good_updates}};
}

static Json position_json(const Position& p) {
  return {{"epoch", p.epoch},
          {"batch", p.batch},
          {"step", p.step},
          {"elapsed_s", p.elapsed_s},
          {"target_s", p.target_s},
          {"target_samples", p.target_samples},
          {"target_epochs", p.target_epochs}};
}

Metadata state_metadata(const Session& session, const Position& position) {
  const DatasetInfo& data = session.train_set->info();
  return {{"format", kFormat},
          {"version", std::to_string(kVersion)},
          {"position", to_line(position_json(position))},
          {"step_state", to_line(step_state_json(session.state->read()))},
          {"plan", to_line(plan_json(session.plan))},
          {"data", fingerprint(*session.train_set)},
          {kClassNames, to_line(Json(data.names))},
          {"threads", std::to_string(omp_get_max_threads())}};
}

// ---- reading

static const std::string& entry(const SafeTensors& saved, const std::string& key) {
  const auto found = saved.metadata.find(key);
  if (found == saved.metadata.end())
    fail(Exit::checkpoint, "not a checkpoint of a run: '", key, "' is missing in its metadata");
  return found->second;
}

// A file that passed its checksums was written by this program or by somebody who means harm; in
// both cases an exception of the JSON library must not end the program as an internal error.
template <class Read> static auto read_entry(const SafeTensors& saved, const char* key, Read read) {
  const std::string& text = entry(saved, key);
  try {
    return read(Json::parse(text));
  } catch (const nlohmann::json::exception& error) {
    fail(Exit::checkpoint, "the checkpoint's '", key, "' cannot be read: ", error.what());
  }
}

static void check_format(const SafeTensors& saved) {
  const std::string &format = entry(saved, "format"), &version = entry(saved, "version");
  if (format != kFormat || version != std::to_string(kVersion))
    fail(Exit::checkpoint, "written by version ", version, " of ", format, ", this program reads ",
         kVersion, " of ", kFormat);
}

Plan plan_of(const SafeTensors& saved) {
  check_format(saved);
  return read_entry(saved, "plan", [](const Json& json) {
    Values values;
    for (const auto& [key, text] : json.items())
      values[key] = {text.get<std::string>(), "the checkpoint's plan"};
    return load(Plan{}, values);
  });
}

// JSON has no infinity. found_inf is the verdict on an update that is over.
static StepState step_state_of(const Json& j) {
  const Json& norm = j.at("grad_norm");
  return {.forwards = j.at("forwards"),
          .applied = j.at("applied"),
          .skipped = j.at("skipped"),
          .loss_scale = j.at("loss_scale"),
          .inverse_scale = j.at("inverse_scale"),
          .good_updates = j.value("good_updates", 0),
          .grad_norm = norm.is_null() ? INFINITY : norm.get<float>()};
}

static Position position_of(const Json& j) {
  return {.epoch = j.at("epoch"),
          .batch = j.at("batch"),
          .step = j.at("step"),
          .elapsed_s = j.at("elapsed_s"),
          .target_s = j.at("target_s"),
          .target_samples = j.at("target_samples"),
          .target_epochs = j.at("target_epochs")};
}

// Labels are places among the names.
static void check_classes(const Names& here, const SafeTensors& saved) {
  if (here.empty() || !saved.metadata.contains(kClassNames)) return;
  const auto then =
      read_entry(saved, kClassNames.c_str(), [](const Json& list) { return Names(list); });
  const auto [learned, given] = std::ranges::mismatch(then, here);
  if (then.empty() || (learned == then.end() && given == here.end())) return;
  fail(Exit::data, "other classes than the model learned: class ", given - here.begin(), " of ",
       here.size(), " is ", given == here.end() ? "none" : *given, ", class ",
       learned - then.begin(), " of ", then.size(), " was ",
       learned == then.end() ? "none" : *learned);
}

void restore_model(Session& session, const SafeTensors& saved) {
  check_classes(session.train_set->info().names, saved);
  copy_saved(model_tensors(session), by_name(model_part(saved.tensors)));
  session.ema.restart();
}

Position restore(Session& session, const SafeTensors& saved, std::vector<std::string>& notes) {
  check_format(saved);
  const auto position = read_entry(saved, "position", position_of);
  auto state = read_entry(saved, "step_state", step_state_of);
  const std::string now = fingerprint(*session.train_set);
  if (entry(saved, "data") != now)
    fail(Exit::data, "the training set is not the one of the checkpoint: ", now, " now, ",
         entry(saved, "data"), " then");
  copy_saved(state_tensors(session), by_name(saved.tensors));
  if (session.plan.amp.scales() != plan_of(saved).amp.scales()) {
    const StepState fresh = session.state->read();
    state.loss_scale = fresh.loss_scale;
    state.inverse_scale = fresh.inverse_scale;
    state.good_updates = 0;
    notes.push_back(cat("amp: the checkpoint was trained in another precision; the loss scale ",
                        "starts at ", fresh.loss_scale));
  }
  session.state->write(state);
  const std::string threads = std::to_string(omp_get_max_threads());
  if (entry(saved, "threads") != threads && !session.plan.kernels.deterministic)
    notes.push_back(cat("threads: ", entry(saved, "threads"), " before, ", threads,
                        " now; the result may differ in its last bits without  deterministic: on"));
  return position;
}

// ---- checksums

std::string fingerprint(const Dataset& data) {
  constexpr int64_t kSamples = 256;
  uint32_t crc = 0;
  Scratch scratch;
  const int64_t n = data.size(), taken = std::min(n, kSamples);
  for (int64_t i = 0; i < taken; ++i) {
    try {
      const Sample sample = data.at(i * n / taken, scratch);
      crc = crc32c(std::as_bytes(std::span(sample.pixels, sample.shape.numel())), crc);
      crc = crc32c(std::as_bytes(std::span(&sample.label, 1)), crc);
    } catch (const Error& error) {  // a damaged one is training's to count
      if (error.exit != Exit::data) throw;
    }
  }
  return fmt::format("{} samples, crc {:08x}", n, crc);
}

std::string model_hash(const Session& session) {
  uint32_t crc = 0;
  for (const auto& [name, tensor] : model_tensors(session)) {
    const Tensor host = contiguous(to(Device::cpu, tensor.detach()));
    crc = crc32c(std::span(host.bytes(), host.nbytes()), crc);
  }
  return fmt::format("{:08x}", crc);
}

}  // namespace bellows
