// trainer export RUN FILE: the model alone, under PyTorch's names, for safetensors.torch.load_file.
#include "trainer/checkpoints.h"
#include "trainer/output.h"
#include "trainer/training_state.h"
#include "trainer/verbs.h"

namespace bellows {

static int run(const Arguments& args) {
  CommandLine line("export");
  std::string from, to;
  bool overwrite = false;
  line.add_option("run,--checkpoint", from, "run folder or checkpoint file")->required();
  line.add_option("to,--to", to, "the .safetensors file to write")->required();
  line.add_flag("--overwrite", overwrite, "replace that file if it is there");
  if (!line.read(args)) return 0;
  CHECK(overwrite || !std::filesystem::exists(to), to,
        " is there already; replace it with --overwrite, or name another file");
  std::vector<std::string> messages;
  const Loaded saved = load_checkpoint(from, messages);
  for (const std::string& message : messages) say(message);
  const NamedTensors model = model_part(saved.content.tensors);
  Metadata metadata{{"format", "pt"}};
  const auto names = saved.content.metadata.find(kClassNames);
  if (names != saved.content.metadata.end() && names->second != "[]") metadata.insert(*names);
  write_safetensors(to, model, metadata);
  int64_t numbers = 0;
  for (const NamedTensor& t : model) numbers += t.tensor.numel();
  say(cat("exported ", model.size(), " tensors, ", numbers, " numbers, to ", to));
  return 0;
}

static const AddVerb verb({"export", "writes a trained model's weights for PyTorch",
                           "trainer export runs/lenet lenet.safetensors", run});

}  // namespace bellows
