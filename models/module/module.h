// Module: a node of the model's tree. It owns its parameters and children, names them as PyTorch
// does, and tells whoever runs below it where in the model that is (core/base/module_path.h).
#pragma once
#include <functional>
#include <memory>
#include "autograd/record.h"
#include "core/base/philox.h"
#include "core/config/visitor.h"
#include "core/tensor/named.h"
#include "core/tensor/step_state.h"

namespace bellows {

class Module;
using ModulePtr = std::unique_ptr<Module>;

// What a parameter starts from.
struct Init {
  enum Kind { uniform, normal, constant } kind;
  double value;  // uniform in [-value, value], normal with that deviation, or the value itself
  bool pass_on = false;  // then the first filters of a convolution pass on a channel each (dirac)
};

struct Child {
  std::string name;  // "" for a fused module: the names below it stay what they were
  ModulePtr module;
};

class Module {
 public:
  virtual ~Module() = default;
  Tensor operator()(const Tensor& x);

  virtual const char* kind() const = 0;  // "conv2d"; shown beside the name
  // What it gets goes into a conv2d and nowhere else, so it may come as conv2d would make it.
  virtual bool begins_with_conv2d() const { return false; }
  std::vector<Child>& children() { return children_; }
  const std::vector<Child>& children() const { return children_; }
  // Leaves to train, and other state (running statistics), each by its full name.
  NamedTensors parameters() const;
  NamedTensors buffers() const;
  bool training() const { return training_; }
  void train(bool on);  // false: evaluation

  // Names every module below `path` and, unless loaded later, draws the parameters from `seed`:
  // each from its own name, so fusing or reordering modules changes no number.
  void name_all(const std::string& path);
  void initialise(uint64_t seed);

 protected:
  virtual Tensor forward(const Tensor& x) = 0;
  // A trained leaf.
  Tensor add_parameter(const char* name, const Shape& shape, Init init, Device device,
                       const MemoryFormat& format = kNCHW);
  void drop_parameter(const char* name);
  Tensor add_buffer(const char* name, const Tensor& value);
  Module& add_child(const std::string& name, ModulePtr module);

 private:
  struct Parameter {
    std::string name;
    Tensor tensor;
    Init init;
  };
  template <class Fn> void each(const std::string& path, const Fn& fn) const;

  std::vector<Child> children_;
  std::vector<Parameter> parameters_;
  NamedTensors buffers_;
  const Site* site_ = &site_of("");
  bool training_ = true;
};

// The first n pictures of the training set as evaluation shows them to a model, (n, C, H, W) in f32
// on the host: for layers that start from the data.
using FirstImages = std::function<Tensor(int64_t n)>;

// A layer is built for the shape that reaches it, and leaves behind the shape of what it gives.
struct LayerContext {
  Shape shape;  // without the batch axis
  uint64_t seed;
  std::shared_ptr<const DeviceStepState> state;  // keys the random numbers of dropout
  bool vectorized;  // lesson layers run on whole tensors, not in a loop
  Device device = Device::cpu;
  MemoryFormat format = kNCHW;  // of 4-D weights
  FirstImages images = {};
};
using MakeLayer = ModulePtr(LayerContext& context);

// What a model is built for. A model is a file that registers itself:
//   static const AddEntry<MakeModel> entry("lenet", "LeNet-5", lenet);
struct ModelContext : LayerContext {  // `shape` is that of a sample
  int64_t classes;
};
using MakeModel = ModulePtr(const ModelContext& context);

}  // namespace bellows
