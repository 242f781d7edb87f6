#include <nlohmann/json.hpp>
#include <set>
#include "core/base/json.h"
#include "core/base/output.h"
#include "core/config/config.h"
#include "core/tensor/copy.h"
#include "data/packed/shard.h"
#include "ops/elementwise.h"
#include "trainer/session/session.h"
#include "trainer/state/checkpoints.h"
#include "trainer/state/training_state.h"

namespace bellows {

TensorsByName by_name(const NamedTensors& tensors) {
  TensorsByName found;
  for (const auto& [name, tensor] : tensors) found[name] = tensor;
  return found;
}

// Returns " title: a, b;" with the first eight names; "" for an empty list.
static std::string list_names(const char* title, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  const size_t shown = std::min<size_t>(names.size(), 8), more = names.size() - shown;
  return cat(" ", title, ": ", joined({names.begin(), names.begin() + shown}),
             more ? cat(" and ", more, " more;") : ";");
}

std::string copy_saved(const NamedTensors& wanted, const TensorsByName& saved,
                       const std::string& what, const char* advice, bool strict) {
  Names missing, unexpected, shapes, initial;  // lists, so that one message shows all problems
  NamedTensors fit;
  for (const NamedTensor& t : wanted) {
    const auto at = saved.find(t.name);
    if (at != saved.end() && at->second.shape() == t.tensor.shape() &&
        at->second.dtype() == t.tensor.dtype()) {
      fit.push_back(t);
      continue;
    }
    initial.push_back(t.name);
    if (at == saved.end())
      missing.push_back(t.name);
    else
      shapes.push_back(cat(t.name, " ", at->second.dtype(), at->second.shape(), ", not ",
                           t.tensor.dtype(), t.tensor.shape()));
  }
  const TensorsByName known = by_name(wanted);
  for (const auto& [name, tensor] : saved)
    if (!known.contains(name)) unexpected.push_back(name);
  std::string text = list_names("missing", missing) + list_names("unexpected", unexpected) +
                     list_names("of another shape or type", shapes);
  if (strict && !text.empty()) {
    text.pop_back();
    fail(Exit::checkpoint, what, " does not fit the model:", text, advice);
  }
  if (!strict && fit.empty()) fail(Exit::checkpoint, what, ": no tensor fits the model");
  for (const auto& [name, tensor] : fit)
    copy_into(tensor.detach(), to(tensor.device(), saved.at(name)));
  return list_names("initial values kept", initial) + list_names("unused", unexpected);
}

// Returns the tensors under the model's names and in its dtypes, as PyTorch converts them. Prefixes
// that wrappers of a model add to its names are removed, in any order. A missing count of batches
// is 0, as in files from before PyTorch counted them.
static TensorsByName as_in_model(const Loaded& file, const TensorsByName& all,
                                 const TensorsByName& model) {
  constexpr std::string_view kWrappers[] = {"_orig_mod.", "module.", "model."},
                             kCount = "num_batches_tracked", kMean = "running_mean";
  TensorsByName saved;
  for (const auto& [name, tensor] : all) {
    std::string inner = name;
    const auto begins = [&](std::string_view wrapper) { return inner.starts_with(wrapper); };
    while (!model.contains(inner)) {
      const auto* const wrapper = std::ranges::find_if(kWrappers, begins);
      if (wrapper == std::end(kWrappers)) break;
      inner.erase(0, wrapper->size());
    }
    if (all.contains(inner)) inner = name;
    const auto wanted = model.find(inner);
    const auto foreign = file.content.foreign.find(name);
    if (wanted != model.end() && foreign != file.content.foreign.end())
      fail(Exit::checkpoint, file.path.string(), ": ", name, " has dtype ", foreign->second,
           ", which this program does not read; save it as ", wanted->second.dtype());
    const bool fits = wanted != model.end() && wanted->second.shape() == tensor.shape();
    saved[inner] = fits ? cast(tensor, wanted->second.dtype()) : tensor;
    if (!fits || !inner.ends_with(kMean)) continue;
    inner.replace(inner.size() - kMean.size(), kMean.size(), kCount);
    if (model.contains(inner)) saved.emplace(inner, zeros({}, model.at(inner).dtype()));
  }
  return saved;
}

// Returns the tensors of the files that an index of Hugging Face names:
// {"weight_map": {"fc.weight": "model-00001-of-00002.safetensors"}}
static SafeTensors read_shards(const Path& index) {
  constexpr int64_t kLargest = 100'000'000;
  const auto shallow = [](int depth, Json::parse_event_t, Json&) { return depth < 4; };
  const Json json = Json::parse(read_file(index, kLargest, Exit::checkpoint), shallow, false);
  std::set<std::string> files;
  if (json.is_object() && json.contains("weight_map"))
    for (const Json& file : json["weight_map"]) files.insert(file.is_string() ? file : "");
  if (files.empty()) files.insert("");
  SafeTensors all;
  for (const std::string& file : files) {
    if (file.empty() || Path(file).filename() != file)
      fail(Exit::checkpoint, index.string(), ": weight_map names '", printable(file),
           "', which is not a file beside it");
    SafeTensors shard = read_safetensors(index.parent_path() / file);
    std::ranges::move(shard.tensors, std::back_inserter(all.tensors));
    all.foreign.merge(shard.foreign);
  }
  return all;
}

static Loaded load_file(const Path& from, std::vector<std::string>& notes) {
  const bool folder = kind_of(from, Exit::checkpoint) == Kind::folder;
  if (folder && list_checkpoints(from / "checkpoints").empty())
    for (const char* name : {"model.safetensors", "model.safetensors.index.json"})
      if (kind_of(from / name, Exit::checkpoint) == Kind::file)
        return load_file(from / name, notes);
  if (from.native().ends_with(".index.json")) return {from, read_shards(from)};
  return load_checkpoint(from.string(), notes);
}

static bool fits(const TensorsByName& all, const NamedTensor& wanted) {
  const auto found = all.find(wanted.name);
  return found != all.end() && found->second.shape() == wanted.tensor.shape();
}

// A bias b before a norm only shifts the mean: mean(conv(x) + b) = mean(conv(x)) + b. Two changes
// keep the output of the norm: a bias that only the file has is subtracted from the running mean,
// and a bias that only the model has is set to 0. A model whose bias was dropped starts from the
// running mean that it would have with the bias, less the bias. Returns a description of the
// changes. `strict`: the file must have the running mean.
static std::string settle_biases(TensorsByName& saved, const TensorsByName& wanted,
                                 const std::vector<NormedConv>& layers, bool strict) {
  std::vector<std::string> moved, absent;
  for (const NormedConv& layer : layers) {
    const NamedTensor mean{layer.norm + ".running_mean", layer.after->running().mean};
    const std::string bias = layer.conv + ".bias";
    const bool given = saved.contains(bias), keeps = wanted.contains(bias);
    const bool known = given ? fits(saved, {bias, mean.tensor})
                             : fits(saved, {layer.conv + ".weight", layer.layer->weight()});
    if ((given && keeps) || !known) continue;
    const Tensor zero = zeros(mean.tensor.shape(), mean.tensor.dtype());
    const Tensor start = fits(saved, mean) ? saved[mean.name] : zero;
    if (keeps) {
      saved[bias] = zero;
      absent.push_back(bias);
    } else if (fits(saved, mean) || (!strict && (given || layer.has_bias))) {
      saved[mean.name] = given ? sub(start, cast(saved[bias], zero.dtype())) : start;
      if (saved.erase(bias)) moved.push_back(bias);
    }
  }
  return list_names("subtracted from the running mean after it (drop_conv_bias)", moved) +
         list_names("missing, so 0", absent);
}

void load_weights(Session& session, std::vector<std::string>& notes) {
  const TrainOptions& train = session.plan.train;
  if (train.weights.empty()) return;
  const Loaded file = load_file(train.weights, notes);
  const NamedTensors model = model_tensors(session);
  const NamedTensors given = model_part(file.content.tensors);
  check_finite(file.path, given, session.plan.ckpt, notes);
  TensorsByName saved = as_in_model(file, by_name(given), by_name(model));
  const std::string classes =
      other_classes(class_names(session.train_set->info()), file.content.metadata);
  if (!classes.empty()) notes.push_back(cat("warning: ", file.path.string(), ": ", classes));
  std::string text = cat("weights: ", file.path.string(), ";");
  text += settle_biases(saved, by_name(model), session.normed_convs, train.weights_strict);
  text += copy_saved(model, saved, file.path.string(),
                     "; or write  train.weights_strict=false  to keep the initial values of the "
                     "rest",
                     train.weights_strict);
  session.ema->restart();
  text.pop_back();
  notes.push_back(text);
}

static Values other_data(const Plan& plan, const std::string& data) {
  std::error_code none;
  if (data.empty()) return {};
  if (!std::filesystem::is_directory(data, none)) {
    CHECK(data.find('/') == data.npos || data.find('{') != data.npos, "--data ", data,
          ": no such folder");
    return parse_overrides({"data=" + data});
  }
  const Values options = dump(plan);
  if (options.contains("data.root")) return {{"data.root", {data, "--data"}}};
  const bool packed = std::filesystem::exists(shard_path(data, Split::test, 0), none);
  if (options.contains("data.folder") && packed) return {{"data.folder", {data, "--data"}}};
  return {{"data.name", {"image_folder", "--data"}}, {"data.root", {data, "--data"}}};
}

std::unique_ptr<Session> load_trained(const std::string& file_or_run, bool tests,
                                      const Names& overrides, const std::string& data) {
  std::vector<std::string> messages;
  const auto [path, saved] = load_checkpoint(file_or_run, messages);
  Plan plan = read_plan(saved);
  check_finite(path, model_part(saved.tensors), plan.ckpt, messages);
  for (const std::string& message : messages) say_error(message);
  Values given = parse_overrides(overrides);
  for (const auto& [key, value] : given)
    CHECK(!key.starts_with("toggles"), key, ": a trained model keeps the toggles of its run; ",
          "set an option instead, such as  amp.dtype=off  or  device=cpu");
  for (const auto& [key, value] : other_data(plan, data))
    CHECK(given.emplace(key, value).second, "--data ", data, " and  ", key, "=", given[key].text,
          "  exclude each other");
  plan = load(plan, given);
  TrainingSetInfo trained = trained_on(saved);
  trained.tests = tests;
  plan.data.transforms = with_statistics(plan.data.transforms, trained.info);
  auto session = std::make_unique<Session>(plan, trained);
  restore_model(*session, saved);
  return session;
}

}  // namespace bellows
