// Module: a node of the model's tree, like torch.nn.Module. It owns its parameters and children,
// names them as PyTorch does, and sets the module path while it runs (core/base/module_path.h).
// Compute thread only.
#pragma once
#include <functional>
#include <memory>
#include "autograd/record.h"
#include "core/base/philox.h"
#include "core/config/choice.h"
#include "core/tensor/tensor.h"

namespace bellows {

class DeviceStepState;
class Module;
class ProcessGroup;
using ModulePtr = std::unique_ptr<Module>;

// Initial values of a parameter.
struct Init {
  enum Kind { uniform, normal, constant } kind;
  double value;  // uniform: in [-value, value]; normal: standard deviation; constant: the value
};

struct Child {
  std::string name;  // "" for a fused module, so the paths of its children do not change
  ModulePtr module;
};

// Returns the path of a child; a child without a name has its parent's path.
inline std::string path_below(const std::string& path, const std::string& name) {
  return path.empty() || name.empty() ? path + name : path + "." + name;
}

class Module {
 public:
  virtual ~Module() = default;
  Tensor operator()(const Tensor& x);

  virtual const char* kind() const = 0;  // type of the module: "conv2d"
  // True if the input feeds only a conv2d, so the feed may cast and pad it in advance.
  virtual bool begins_with_conv2d() const { return false; }
  // True if forward() draws random values, which it must key by LayerContext::state.
  virtual bool draws() const { return false; }
  std::vector<Child>& children() { return children_; }
  const std::vector<Child>& children() const { return children_; }
  // Trainable leaves and other state (running statistics) of the subtree, by path: "conv1.weight".
  NamedTensors parameters() const;
  NamedTensors buffers() const;
  // Calls fn(path, module) for this module, whose path is `path`, then for all modules below it.
  template <class Fn> void each(const std::string& path, const Fn& fn) const {
    fn(path, *this);
    for (const Child& child : children_) child.module->each(path_below(path, child.name), fn);
  }
  bool training() const { return training_; }
  void train(bool on);  // switches the subtree to training or, if false, to evaluation

  // Sets the module path of the whole subtree, starting at `path`.
  void name_all(const std::string& path);
  // Fills the parameters with their initial values. Random values are keyed by `seed` and the
  // parameter's path, so fusing or reordering modules changes none.
  void initialize(uint64_t seed);

 protected:
  virtual Tensor forward(const Tensor& x) = 0;
  // Adds a trainable f32 leaf; initialize() fills it. `format` applies to 4-D shapes.
  Tensor add_parameter(const char* name, const Shape& shape, Init init, Device device,
                       const MemoryFormat& format = kNCHW);
  void drop_parameter(const char* name);
  // Removes a parameter. initialize() then writes its negated initial values to `buffer`.
  void drop_parameter(const char* name, const Tensor& buffer);
  Tensor add_buffer(const char* name, const Tensor& value);  // saved state that is not trained
  Module& add_child(const std::string& name, ModulePtr module);

 private:
  struct Parameter {
    std::string name;
    Tensor tensor;
    Init init;
    bool dropped = false;  // `tensor` is the buffer that initialize() fills instead
  };

  std::vector<Child> children_;
  std::vector<Parameter> parameters_;
  NamedTensors buffers_;
  const ModuleSite* site_ = &site_of("");
  bool training_ = true;
};

// Lengths of the samples of the current batch, set before each forward pass.
struct BatchLengths {
  Tensor value;  // (N) i64 on the model's device; undefined: samples have no axis that varies
};

// Argument of layer constructors. A layer reads its input's shape from `shape` and replaces it with
// its output's.
struct LayerContext {
  Shape shape;  // shape of one sample, without the batch axis
  uint64_t seed;
  std::shared_ptr<const DeviceStepState> state;  // keys the random numbers of dropout
  bool vectorized;  // lesson layers run one op on the whole tensor instead of a loop
  Device device = Device::cpu;
  MemoryFormat format = kNCHW;    // memory format of 4-D weights
  ProcessGroup* group = nullptr;  // ranks whose batch norms share statistics; null: none do
  std::shared_ptr<const BatchLengths> lengths = {};  // lets layers leave out padding; may be null
};
using MakeLayer = ModulePtr(LayerContext& context);
// The entry of a layer that is constructed from its options and a LayerContext:
//   static const AddEntry<MakeLayer> linear_entry("linear", "fully connected",
//                                                 make_layer<LinearLayer, LinearLayerOptions>);
template <class Layer, class Options>
ModulePtr make_layer(const Options& options, LayerContext& context) {
  return std::make_unique<Layer>(options, context);
}

// Argument of model builders; `shape` is that of the data set's samples. Each model is a file that
// registers itself:
//   static const AddEntry<MakeModel> lenet_entry("lenet", "LeNet-5", lenet);
struct ModelContext : LayerContext {
  int64_t classes;  // number of classes, or of target values
  Shape output;     // shape of an output sample: (classes), or what DatasetInfo::output() returns
};
using MakeModel = ModulePtr(const ModelContext& context);

// Reason why a resumed run cannot change an option that decides which tensors the model has.
inline constexpr const char* kOtherModel =
    "the checkpoint holds the state of the other model; undo the change, or start a new run from "
    "the weights alone with  train.weights=FILE";

}  // namespace bellows
