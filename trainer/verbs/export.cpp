// trainer export RUN FILE: the model's tensors, with PyTorch's names, for
// safetensors.torch.load_file.
#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include "autograd/record.h"
#include "core/base/json.h"
#include "core/base/output.h"
#include "core/base/words.h"
#include "core/tensor/copy.h"
#include "models/rewrites/normed_conv.h"
#include "plan/plan.h"
#include "trainer/session/data_card.h"
#include "trainer/session/session.h"
#include "trainer/state/checkpoints.h"
#include "trainer/state/training_state.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

// Refuses suffixes of other formats: programs that expect those could not read the file.
static void refuse_other_formats(const Path& to) {
  std::string suffix = to.extension();
  std::ranges::transform(suffix, suffix.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* other : {".pt", ".pth", ".bin", ".onnx", ".ckpt", ".pkl", ".npz", ".h5"})
    CHECK(suffix != other, to.string(), ": export writes safetensors, not ", suffix, "; name it  ",
          Path(to).replace_extension(".safetensors").string(),
          "  and read it with safetensors.torch.load_file");
}

// Adds biases that drop_conv_bias removed as zeros: PyTorch's model has them.
static void restore_biases(NamedTensors& model, const Names& dropped) {
  for (const std::string& bias : dropped) {
    const std::string weight = bias.substr(0, bias.rfind("bias")) + "weight";
    const auto at = std::ranges::find(model, weight, &NamedTensor::name);
    if (at == model.end() || by_name(model).contains(bias))
      fail(Exit::checkpoint, "the checkpoint lists ", bias,
           " as removed, but its tensors do not agree; the file is damaged");
    model.insert(at + 1, {bias, zeros({at->tensor.dim(0)}, at->tensor.dtype())});
  }
}

// Replaces convolutions and the batch norms after them by folded convolutions, as
// torch.nn.utils.fusion.fuse_conv_bn_eval does. Returns how many.
static size_t fold_norms(NamedTensors& model, const std::string& from) {
  const NoGrad untracked;
  const auto session = load_trained(from, false);
  for (const NormedConv& c : session->normed_convs) {
    std::erase_if(model, [&](const NamedTensor& t) {
      return t.name.starts_with(c.norm + ".") || t.name == c.conv + ".bias";
    });
    const auto weight = std::ranges::find(model, c.conv + ".weight", &NamedTensor::name);
    INVARIANT(weight != model.end(), "the model has the tensors of its checkpoint");
    const auto [w, b] = fold(*c.layer, *c.after);
    weight->tensor = contiguous(to(Device::cpu, w));
    model.insert(weight + 1, {c.conv + ".bias", contiguous(to(Device::cpu, b))});
  }
  return session->normed_convs.size();
}

// Keys are plain text, values JSON.
static Metadata make_metadata(const SafeTensors& saved) {
  Metadata metadata{{"format", "pt"}};
  const TrainingSetInfo trained = trained_on(saved);
  const auto list = with_statistics(read_plan(saved).data.transforms, trained.info);
  const Shape input = Transforms(list, trained.info, TransformMode::evaluation).shape();
  metadata["input_size"] = to_line(std::vector<int64_t>(input.begin(), input.end()));
  if (trained.info.classes) metadata[kClassNames] = to_line(class_names(trained.info));
  if (!trained.info.images()) return metadata;
  const Json transforms = to_json(list);
  metadata["channels"] = std::to_string(input[0]);
  metadata["transforms"] = to_line(transforms);
  // mean and std of the one (x - mean) / std that equals all normalize transforms of the list.
  std::vector<double> mean(input[0], 0), std(input[0], 1);
  for (const Json& item : transforms)
    for (int64_t c = 0; item.at("name") == "normalize" && c < input[0]; ++c) {
      mean[c] += std[c] * item.at("mean").at(c).get<double>();
      std[c] *= item.at("std").at(c).get<double>();
    }
  metadata["mean"] = to_line(mean);
  metadata["std"] = to_line(std);
  return metadata;
}

static int run_export(CommandLine& line, const Arguments& args) {
  std::string from, to;
  bool overwrite = false, fold_bn = false;
  line.add_option("run,--checkpoint", from, "run folder or checkpoint file").required();
  line.add_option("file,--to", to, ".safetensors file to write").required();
  line.add_flag("--overwrite", overwrite, "replace the file if it exists");
  line.add_flag("--fold-bn", fold_bn,
                "fold each batch norm into the convolution before it, which then has a bias");
  line.add_note(
      "Metadata, in JSON: input_size (C, H, W), channels, mean and std of pixels from 0 to 1, "
      "transforms (the whole list), classes (names in the order of the outputs).");
  if (!line.read(args)) return 0;
  refuse_other_formats(to);
  CHECK(kind_of(to, Exit::storage) != Kind::folder, to,
        " is a folder; write  trainer export RUN FILE.safetensors");
  CHECK(overwrite || kind_of(to, Exit::storage) == Kind::nothing, to,
        " exists; replace it with --overwrite, or name another file");
  std::vector<std::string> messages;
  const Loaded saved = load_checkpoint(from, messages);
  std::error_code unknown;
  CHECK(!std::filesystem::equivalent(saved.path, to, unknown), to,
        " is the checkpoint itself, which holds more than an export; name another file");
  const Path place = std::filesystem::weakly_canonical(to, unknown), folder = place.parent_path();
  CHECK(folder.filename() != "checkpoints" || (step_in(place) < 0 && place != best_path(folder)),
        to, " would be a checkpoint of that run for --resume; choose another name");
  NamedTensors model = model_part(saved.content.tensors);
  check_finite(saved.path, model, read_plan(saved.content).ckpt, messages);
  for (const std::string& message : messages) say_error(message);
  const Names dropped = dropped_biases(saved.content);
  restore_biases(model, dropped);
  const size_t folds = fold_bn ? fold_norms(model, saved.path.string()) : 0;
  CHECK(!fold_bn || folds > 0, "export: --fold-bn: no batch norm follows a convolution in ", from);
  remove_temporaries(Path(to).has_parent_path() ? Path(to).parent_path() : ".");
  write_safetensors(to, model, make_metadata(saved.content));
  int64_t values = 0;
  for (const NamedTensor& t : model) values += t.tensor.numel();
  say(cat("exported ", model.size(), " tensors, ", values, " values, to ", to,
          folds ? cat("; folded: ", count_of(int64_t(folds), "batch norm"))
          : dropped.empty()
              ? ""
              : cat("; ", dropped.size(), " biases that drop_conv_bias removed are zeros")));
  return 0;
}

static const AddVerb export_verb(
    {"export", "writes the weights of a trained model as safetensors, for PyTorch",
     "trainer export runs/lenet lenet.safetensors", run_export, "use"});

}  // namespace bellows
