// Replaces ops/vendor/cudnn.cu: an interpreter of cuDNN's graphs on the CPU. So the product's own
// descriptions of graphs run, and their maths is tested. Images are f32 here (f64 for f64), and
// results are rounded last.
#include "ops/vendor/cudnn.h"
#include <optional>
#include "core/tensor/copy.h"
#include "tests/cuda_host/vendor/vendor.h"

using namespace bellows;
using cuda_host::View;

namespace bellows::cudnn {

bool available() { return true; }
std::string version() { return "stand-in"; }

namespace {

// Values of a tensor in one run, row-major (N, C, H, W), or per channel (1, C, 1, 1).
struct Value {
  Shape shape;
  std::vector<double> at;
};
using Values = std::vector<Value>;

Tensor tensor_of(const Value& v, DType dtype) {
  const Tensor wide(v.shape, DType::f64);
  std::ranges::copy(v.at, wide.ptr<double>());
  return cast(wide, dtype);
}
Value value_of(const Tensor& t) {
  const Tensor wide = contiguous(cast(t, DType::f64));
  return {t.shape(), {wide.ptr<double>(), wide.ptr<double>() + wide.numel()}};
}

Value load(const Layout& layout, const void* address, bool tf32) {
  return value_of(View(address, layout.shape, layout.strides, layout.dtype).load_rounded(tf32));
}
void store(const Value& value, const Layout& layout, const void* address) {
  const DType computed = layout.dtype == DType::f64 ? DType::f64 : DType::f32;
  View(address, layout.shape, layout.strides, layout.dtype).store(tensor_of(value, computed));
}

}  // namespace

struct Graph::Description {
  DType dtype;
  bool multiplies = false;
  std::vector<std::optional<Layout>> layouts = {};  // by Id - 1
  std::vector<Id> inputs = {}, outputs = {};
  std::vector<std::function<void(Values&, bool tf32)>> nodes = {};

  Id add() {
    layouts.emplace_back();
    return Id(layouts.size());
  }
  Id node(std::function<Value(const Values&)> fn) {
    const Id id = add();
    nodes.emplace_back([=](Values& v, bool) { v[id - 1] = fn(v); });
    return id;
  }
  Id convolution(const std::function<Tensor(const Tensor& a, const Tensor& b, Slot& slot)>& fn,
                 Id a, Id b) {
    multiplies = true;
    const DType computed = dtype == DType::f64 ? DType::f64 : DType::f32;
    return node([=](const Values& v) {
      Slot slot;
      return value_of(fn(tensor_of(v[a - 1], computed), tensor_of(v[b - 1], computed), slot));
    });
  }
};

Graph::Graph(DType dtype) : description_(new Description{dtype}) {}
Graph::Graph(Graph&&) noexcept = default;
Graph::~Graph() = default;

Id Graph::input(const Layout& layout) {
  const Id id = description_->add();
  description_->layouts[id - 1] = layout;
  description_->inputs.push_back(id);
  return id;
}
void Graph::output(Id tensor, const Layout& layout) {
  description_->layouts[tensor - 1] = layout;
  description_->outputs.push_back(tensor);
}

Id Graph::conv2d(Id x, Id w, const Conv2dOptions& options) {
  return description_->convolution(
      [=](const Tensor& x, const Tensor& w, Slot& slot) {
        return kernels::conv2d.plain(x, w, Tensor(), options, slot);
      },
      x, w);
}
// The shapes of these results are stated later, by output().
Id Graph::conv2d_backward_x(Id dy, Id w, const Conv2dOptions& options) {
  Description* const d = description_.get();
  const Id id = Id(d->layouts.size()) + 1;
  return d->convolution(
      [=](const Tensor& dy, const Tensor& w, Slot& slot) {
        return kernels::conv2d_backward_x.plain(dy, w, d->layouts[id - 1]->shape, options, slot);
      },
      dy, w);
}
Id Graph::conv2d_backward_w(Id dy, Id x, const Conv2dOptions& options) {
  Description* const d = description_.get();
  const Id id = Id(d->layouts.size()) + 1;
  return d->convolution(
      [=](const Tensor& dy, const Tensor& x, Slot& slot) {
        const Tensor dw(d->layouts[id - 1]->shape, dy.dtype());
        kernels::conv2d_backward_w.plain(dy, x, dw, Tensor(), options, slot);
        return dw;
      },
      dy, x);
}

// b is per channel.
Id Graph::add(Id a, Id b) {
  return description_->node([=](const Values& v) {
    Value y = v[a - 1];
    const size_t plane = size_t(y.shape[2] * y.shape[3]), channels = size_t(y.shape[1]);
    for (size_t i = 0; i < y.at.size(); ++i) y.at[i] += v[b - 1].at[i / plane % channels];
    return y;
  });
}

Proposals Graph::propose(const Filter& filter, Search) && {
  const std::shared_ptr<Description> d = std::move(description_);
  const bool tf32 = d->multiplies && d->dtype == DType::f32 && filter.tf32;
  return cuda_host::propose_plans("cuDNN", tf32, [=](Bindings bindings) {
    std::map<Id, const void*> at;
    for (const auto& [tensor, address] : bindings) at[tensor] = address;
    return [=](bool wrong) {
      Values values(d->layouts.size());
      for (const Id id : d->inputs) values[id - 1] = load(*d->layouts[id - 1], at.at(id), tf32);
      for (const auto& node : d->nodes) node(values, tf32);
      for (const Id id : d->outputs) {
        if (wrong) values[id - 1].at[0] *= 100;
        store(values[id - 1], *d->layouts[id - 1], at.at(id));
      }
    };
  });
}

}  // namespace bellows::cudnn
