#include "trainer/state/weights.h"
#include "core/tensor/copy.h"
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
static std::string list_of(const char* title, const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < 8; ++i) text += (i ? ", " : "") + names[i];
  if (names.size() > 8) text += cat(" and ", names.size() - 8, " more");
  return names.empty() ? "" : cat(" ", title, ": ", text, ";");
}

void copy_saved(const NamedTensors& wanted, const TensorsByName& saved, const std::string& what,
                const char* advice) {
  std::vector<std::string> missing, unexpected, shapes;  // so that one message shows all of them
  for (const auto& [name, tensor] : wanted) {
    const auto at = saved.find(name);
    if (at == saved.end())
      missing.push_back(name);
    else if (at->second.shape() != tensor.shape() || at->second.dtype() != tensor.dtype())
      shapes.push_back(cat(name, " ", at->second.dtype(), at->second.shape(), ", not ",
                           tensor.dtype(), tensor.shape()));
  }
  const TensorsByName known = by_name(wanted);
  for (const auto& [name, tensor] : saved)
    if (!known.contains(name)) unexpected.push_back(name);
  std::string text = list_of("missing", missing) + list_of("unexpected", unexpected) +
                     list_of("of another shape or type", shapes);
  if (!text.empty()) {
    text.pop_back();
    fail(Exit::checkpoint, what, " does not fit the model:", text, advice);
  }
  for (const auto& [name, tensor] : wanted)
    copy_into(tensor.detach(), to(tensor.device(), saved.at(name)));
}

// ---- initial weights

static void strip_wrapper(TensorsByName& saved, const TensorsByName& model) {
  constexpr std::string_view kWrapper = "module.";  // prefix of DistributedDataParallel
  const auto is_wrapped = [&](const auto& item) { return item.first.starts_with(kWrapper); };
  if (!std::ranges::all_of(saved, is_wrapped) || std::ranges::any_of(model, is_wrapped)) return;
  TensorsByName inner;
  for (const auto& [name, tensor] : saved) inner[name.substr(kWrapper.size())] = tensor;
  saved = inner;
}

// Casts floating-point tensors of the file to the model's dtypes.
static void cast_floats(TensorsByName& saved, const TensorsByName& model) {
  for (auto& [name, tensor] : saved) {
    const auto wanted = model.find(name);
    if (wanted != model.end() && is_float(wanted->second.dtype()) && is_float(tensor.dtype()))
      tensor = cast(tensor, wanted->second.dtype());
  }
}

static bool fits(const TensorsByName& all, const NamedTensor& wanted) {
  const auto found = all.find(wanted.name);
  return found != all.end() && found->second.shape() == wanted.tensor.shape();
}

// A bias b before a norm only shifts the mean: mean(conv(x) + b) = mean(conv(x)) + b. Two changes
// keep the output of the norm: a bias that only the file has is subtracted from the running mean,
// and a bias that only the model has is set to 0. Returns a description of the changes.
static std::string settle_biases(TensorsByName& saved, const TensorsByName& wanted,
                                 const std::vector<NormedConv>& layers) {
  std::vector<std::string> moved, absent;
  for (const NormedConv& layer : layers) {
    const NamedTensor mean{layer.norm + ".running_mean", layer.after->running().mean};
    const std::string bias = layer.conv + ".bias";
    if (saved.contains(bias) == wanted.contains(bias)) continue;
    if (wanted.contains(bias)) {
      if (!fits(saved, {layer.conv + ".weight", layer.layer->weight()})) continue;
      saved[bias] = zeros(mean.tensor.shape(), mean.tensor.dtype());
      absent.push_back(bias);
    } else if (fits(saved, mean) && fits(saved, {bias, mean.tensor})) {
      saved[mean.name] = sub(saved[mean.name], cast(saved[bias], mean.tensor.dtype()));
      saved.erase(bias);
      moved.push_back(bias);
    }
  }
  return list_of("subtracted from the running mean after it (drop_conv_bias)", moved) +
         list_of("missing, so 0", absent);
}

// Copies the tensors that fit; the others keep their initial values. Returns a list of those, and
// of the file's tensors that are not used.
static std::string copy_what_fits(const NamedTensors& model, const TensorsByName& saved,
                                  const std::string& file) {
  NamedTensors fit;
  TensorsByName taken, unknown = saved;
  std::vector<std::string> initial, unused;
  for (const NamedTensor& t : model) {
    unknown.erase(t.name);
    if (!fits(saved, t)) {
      initial.push_back(t.name);
      continue;
    }
    fit.push_back(t);
    taken[t.name] = saved.at(t.name);
  }
  if (fit.empty()) fail(Exit::checkpoint, file, ": no tensor fits the model");
  for (const auto& [name, tensor] : unknown) unused.push_back(name);
  copy_saved(fit, taken, file);
  return list_of("initial values kept", initial) + list_of("unused", unused);
}

void load_weights(Session& session, std::vector<std::string>& notes) {
  const TrainOptions& train = session.plan.train;
  if (train.weights.empty()) return;
  const Loaded file = load_checkpoint(train.weights, notes);
  const NamedTensors model = model_tensors(session);
  const NamedTensors given = model_part(file.content.tensors);
  check_finite(file.path, given, session.plan.ckpt, notes);
  TensorsByName saved = by_name(given);
  strip_wrapper(saved, by_name(model));
  cast_floats(saved, by_name(model));
  std::string text = cat("weights: ", file.path.string(), ";");
  text += settle_biases(saved, by_name(model), session.normed_convs);
  if (train.weights_strict)
    copy_saved(model, saved, file.path.string(),
               "; or write  train.weights_strict=false  to keep the initial values of the rest");
  else
    text += copy_what_fits(model, saved, file.path.string());
  session.ema->restart();
  text.pop_back();
  notes.push_back(text);
}

}  // namespace bellows
