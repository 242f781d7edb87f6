#include "models/module/module.h"
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "core/tensor/rng.h"

namespace bellows {

Tensor Module::operator()(const Tensor& x) {
  const ModuleScope at(*site_);
  const trace::Range range(kind());
  return forward(x);
}

NamedTensors Module::parameters() const {
  NamedTensors all;
  each("", [&](const std::string& path, const Module& module) {
    for (const Parameter& p : module.parameters_)
      if (!p.dropped) all.push_back({path_below(path, p.name), p.tensor});
  });
  return all;
}

NamedTensors Module::buffers() const {
  NamedTensors all;
  each("", [&](const std::string& path, const Module& module) {
    for (const NamedTensor& b : module.buffers_)
      all.push_back({path_below(path, b.name), b.tensor});
  });
  return all;
}

void Module::train(bool on) {
  training_ = on;
  for (const Child& child : children_) child.module->train(on);
}

void Module::name_all(const std::string& path) {
  site_ = &site_of(path);
  for (const Child& child : children_) {
    child.module->name_all(path_below(path, child.name));
    // A fused module has no name; messages use the path of the first module it replaces.
    if (child.name.empty()) child.module->site_ = child.module->children_.front().module->site_;
  }
}

void Module::initialize(uint64_t seed) {
  each("", [&](const std::string& path, const Module& module) {
    for (const auto& [name, tensor, init, dropped] : module.parameters_) {
      const RngKey key{
          .seed = seed, .purpose = Purpose::init, .site = site_of(path_below(path, name)).hash};
      // Random values are indexed in row-major order, so the memory format does not change them.
      write_in(kNCHW, tensor, [&, init = init](const Tensor& t) {
        if (init.kind == Init::uniform) fill_uniform(t, -init.value, init.value, key);
        if (init.kind == Init::normal) fill_normal(t, 0, init.value, key);
        if (init.kind == Init::constant) fill(t, init.value);
      });
    }
  });
}

Tensor Module::add_parameter(const char* name, const Shape& shape, Init init, Device device,
                             const MemoryFormat& format) {
  parameters_.push_back({name, require_grad(Tensor(shape, DType::f32, device, format)), init});
  return parameters_.back().tensor;
}

void Module::drop_parameter(const char* name) {
  std::erase_if(parameters_, [&](const Parameter& p) { return p.name == name; });
}

void Module::drop_parameter(const char* name, const Tensor& buffer) {
  for (Parameter& p : parameters_)
    if (p.name == name) p = {p.name, buffer, {p.init.kind, -p.init.value}, true};
}

Tensor Module::add_buffer(const char* name, const Tensor& value) {
  buffers_.push_back({name, value});
  return value;
}

Module& Module::add_child(const std::string& name, ModulePtr module) {
  children_.push_back({name, std::move(module)});
  return *children_.back().module;
}

}  // namespace bellows
