// Builds a model from options as text, in the same way as a session.
#pragma once
#include "core/config/yaml.h"
#include "core/tensor/rng.h"
#include "core/tensor/safetensors.h"
#include "plan/plan.h"
#include "tests/place.h"

namespace bellows {

using Texts = std::map<std::string, std::string>;  // options of a model

// Returns the options of a model of these layers, which are YAML.
inline Texts layer_list(const std::string& layers) {
  Texts texts = {{"name", "layers"}};
  for (const auto& [key, value] : parse_yaml("layers: [" + layers + "]", "test"))
    texts[key] = value.text;
  return texts;
}

struct BuildContext {
  Shape sample = {1, 28, 28};
  int64_t classes = 10;
  std::optional<Shape> output = {};  // (classes) if not given
  uint64_t seed = 1;
  std::shared_ptr<const DeviceStepState> state = std::make_shared<DeviceStepState>(Device::cpu);
  std::vector<std::string>* fused = nullptr;  // receives the report of the fusions
  ProcessGroup* group = nullptr;
};

inline ModulePtr build(const Texts& texts, const BuildContext& context = {}) {
  Values values;
  for (const auto& [key, text] : texts) values[key] = {text, "test"};
  const ModelOptions options = load(ModelOptions{}, values);
  ModulePtr model = options.model.make({{.shape = context.sample,
                                         .seed = context.seed,
                                         .state = context.state,
                                         .vectorized = options.vectorized,
                                         .format = options.channels_last ? kNHWC : kNCHW,
                                         .group = context.group},
                                        context.classes,
                                        context.output.value_or(Shape{context.classes})});
  const std::string fused = "fused: ";
  if (context.fused) context.fused->clear();
  for (const std::string& line : rewrite(*model, options.rewrites))
    if (context.fused && line.starts_with(fused))
      context.fused->push_back(line.substr(fused.size()));
  model->name_all("");
  model->initialize(context.seed);
  return model;
}

// Each parameter with its shape, such as "fc1.bias[32]".
inline std::vector<std::string> shapes(const Module& model) {
  std::vector<std::string> all;
  for (const NamedTensor& p : model.parameters()) all.push_back(cat(p.name, p.tensor.shape()));
  return all;
}

// Reads results of PyTorch, written by tests/oracle/make_fixtures.py.
inline NamedTensors fixture(const std::string& name) {
  return read_safetensors(source_dir() + "/tests/oracle/" + name + ".safetensors").tensors;
}

inline Tensor find(const NamedTensors& tensors, const std::string& name) {
  for (const NamedTensor& t : tensors)
    if (t.name == name) return t.tensor;
  fail(Exit::internal, "no tensor is called ", name);
}

}  // namespace bellows
