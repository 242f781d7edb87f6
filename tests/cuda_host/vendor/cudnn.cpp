// Replaces ops/vendor/cudnn.cu: an interpreter of cuDNN's graphs on the CPU. So the product's own
// descriptions of graphs run, and their maths is tested. Images are f32 here (f64 for f64), and
// results are rounded last.
#include "ops/vendor/cudnn.h"
#include <cmath>
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
  // Index of the element that is broadcast to element i of `image`.
  size_t index(size_t i, const Shape& image) const {
    return at.size() == size_t(image.numel()) ? i
                                              : i / size_t(image[2] * image[3]) % size_t(image[1]);
  }
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

// Masks have one bit per element, in the order of the elements in memory.
std::vector<int64_t> order_in_memory(const Layout& layout) {
  std::vector<int64_t> offsets;
  const Shape& s = layout.shape;
  const Strides& d = layout.strides;
  for (int64_t n = 0; n < s[0]; ++n)
    for (int64_t c = 0; c < s[1]; ++c)
      for (int64_t h = 0; h < s[2]; ++h)
        for (int64_t w = 0; w < s[3]; ++w)
          offsets.push_back(n * d[0] + c * d[1] + h * d[2] + w * d[3]);
  return offsets;
}
View bytes_of(const Layout& layout, const void* address) {
  return View(address, {(layout.shape.numel() + 7) / 8}, {1}, DType::u8);
}

Value load(const Layout& layout, const void* address, bool tf32) {
  if (layout.dtype != DType::u8)
    return value_of(View(address, layout.shape, layout.strides, layout.dtype).load_rounded(tf32));
  const Value bytes = value_of(bytes_of(layout, address).load());
  Value bits{layout.shape, {}};
  for (const int64_t i : order_in_memory(layout))
    bits.at.push_back(int(bytes.at[i / 8]) >> (i % 8) & 1);
  return bits;
}
void store(const Value& value, const Layout& layout, const void* address) {
  const DType computed = layout.dtype == DType::f64 ? DType::f64 : DType::f32;
  if (layout.dtype != DType::u8)
    return View(address, layout.shape, layout.strides, layout.dtype)
        .store(tensor_of(value, computed));
  Value bytes{{(layout.shape.numel() + 7) / 8}, {}};
  bytes.at.resize(bytes.shape.numel());
  const std::vector<int64_t> order = order_in_memory(layout);
  for (size_t i = 0; i < order.size(); ++i)
    if (value.at[i] != 0) bytes.at[order[i] / 8] += 1 << (order[i] % 8);
  bytes_of(layout, address).store(tensor_of(bytes, DType::f32));
}

}  // namespace

struct Graph::Description {
  DType dtype;
  const char* call = "cuDNN";
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
  Id pointwise(Id a, Id b, double (*fn)(double, double)) {
    return node([=](const Values& v) {
      const Value &left = v[a - 1], &right = v[b - 1];
      Value y = left;
      for (size_t i = 0; i < y.at.size(); ++i)
        y.at[i] = fn(left.at[i], right.at[right.index(i, left.shape)]);
      return y;
    });
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
Graph::Graph(DType dtype, DType) : Graph(dtype) {}
Graph::Graph(Graph&&) noexcept = default;
Graph::~Graph() = default;

Id Graph::input(const Layout& layout) {
  const Id id = description_->add();
  inside(id, layout);
  description_->inputs.push_back(id);
  return id;
}
void Graph::output(Id tensor, const Layout& layout) {
  inside(tensor, layout);
  description_->outputs.push_back(tensor);
}
void Graph::inside(Id tensor, const Layout& layout) { description_->layouts[tensor - 1] = layout; }

Id Graph::conv2d(Id x, Id w, const Conv2dOptions& options) {
  return description_->convolution(
      [=](const Tensor& x, const Tensor& w, Slot& slot) {
        return kernels::conv2d.plain(x, w, Tensor(), options, slot);
      },
      x, w);
}
// The shapes of these results are stated later, by output() or inside().
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

Id Graph::add(Id a, Id b) {
  return description_->pointwise(a, b, [](double x, double y) { return x + y; });
}
Id Graph::subtract(Id a, Id b) {
  return description_->pointwise(a, b, [](double x, double y) { return x - y; });
}
Id Graph::multiply(Id a, Id b) {
  return description_->pointwise(a, b, [](double x, double y) { return x * y; });
}
Id Graph::relu(Id x) {
  return description_->pointwise(x, x, [](double x, double) { return x <= 0 ? 0 : x; });
}
Id Graph::positive(Id x) {
  return description_->pointwise(x, x, [](double x, double) { return double(x > 0); });
}
Id Graph::where(Id bits, Id dy) { return multiply(dy, bits); }
Id Graph::relu_backward(Id dy, Id x) {
  return description_->pointwise(dy, x, [](double dy, double x) { return x > 0 ? dy : 0; });
}

namespace {

// Per channel: sum over an image of fn(element).
template <class Fn> Value channel_sum(const Value& x, const Fn& fn) {
  Value sums{{1, x.shape[1], 1, 1}, std::vector<double>(x.shape[1])};
  for (size_t i = 0; i < x.at.size(); ++i) sums.at[sums.index(i, x.shape)] += fn(i);
  return sums;
}
double per_channel(const Value& x) { return double(x.at.size()) / double(x.shape[1]); }

}  // namespace

Graph::Normalized Graph::batch_norm(Id x_, Id weight_, Id bias_, double eps) {
  Description& d = *description_;
  d.call = "cuDNN batch_norm";
  const Id mean_ = d.node([=](const Values& v) {
    const Value& x = v[x_ - 1];
    Value mean = channel_sum(x, [&](size_t i) { return x.at[i]; });
    for (double& value : mean.at) value /= per_channel(x);
    return mean;
  });
  const Id inverse_ = d.node([=](const Values& v) {
    const Value &x = v[x_ - 1], &mean = v[mean_ - 1];
    Value inverse = channel_sum(
        x, [&](size_t i) { return std::pow(x.at[i] - mean.at[mean.index(i, x.shape)], 2); });
    for (double& value : inverse.at) value = 1 / std::sqrt(value / per_channel(x) + eps);
    return inverse;
  });
  const Id y = add(multiply(multiply(subtract(x_, mean_), inverse_), weight_), bias_);
  return {y, mean_, inverse_};
}
Graph::NormalizedSums Graph::batch_norm_backward_w(Id dy_, Id x_, Id weight_, Id mean_,
                                                   Id inverse_) {
  Description& d = *description_;
  const Id normalized_ = multiply(subtract(x_, mean_), inverse_);
  const auto sum_of = [&](Id a) {
    return d.node([=](const Values& v) {
      return channel_sum(v[a - 1], [&](size_t i) { return v[a - 1].at[i]; });
    });
  };
  const Id dw_ = sum_of(multiply(dy_, normalized_)), db_ = sum_of(dy_);
  // dx = weight inverse (dy - db / n - normalized dw / n)
  const auto factor = [&](double (*fn)(double scale, double n, double dw, double db, double mean,
                                       double inverse)) {
    return d.node([=](const Values& v) {
      Value y = v[dw_ - 1];
      for (size_t c = 0; c < y.at.size(); ++c)
        y.at[c] = fn(v[weight_ - 1].at[c] * v[inverse_ - 1].at[c], per_channel(v[x_ - 1]),
                     v[dw_ - 1].at[c], v[db_ - 1].at[c], v[mean_ - 1].at[c], v[inverse_ - 1].at[c]);
      return y;
    });
  };
  const Id scale_dy =
      factor([](double scale, double, double, double, double, double) { return scale; });
  const Id scale_x = factor([](double scale, double n, double dw, double, double, double inverse) {
    return -scale * inverse * dw / n;
  });
  const Id shift = factor([](double scale, double n, double dw, double db, double mean,
                             double inverse) { return scale * (mean * inverse * dw - db) / n; });
  return {dw_, db_, scale_dy, scale_x, shift};
}
Graph::NormalizedGrads Graph::batch_norm_backward(Id dy, Id x, Id weight, Id mean, Id inverse) {
  description_->call = "cuDNN batch_norm_backward";
  const NormalizedSums s = batch_norm_backward_w(dy, x, weight, mean, inverse);
  return {add(add(multiply(dy, s.scale_dy), multiply(x, s.scale_x)), s.shift), s.dw, s.db};
}
Graph::ChannelSums Graph::channel_sums(Id x_) {
  description_->call = "cuDNN channel_sums";
  const auto sum_of = [&](Id a) {
    return description_->node([=](const Values& v) {
      return channel_sum(v[a - 1], [&](size_t i) { return v[a - 1].at[i]; });
    });
  };
  return {sum_of(x_), sum_of(multiply(x_, x_))};
}

Proposals Graph::propose(const Filter& filter, Search search) && {
  const std::shared_ptr<Description> d = std::move(description_);
  const bool compiled = search == Search::thorough && filter.compiled;
  const bool tf32 = d->multiplies && d->dtype == DType::f32 && filter.tf32;
  return cuda_host::propose_plans(d->call, compiled, tf32, [=](Bindings bindings) {
    std::map<Id, const void*> at;
    for (const auto& [tensor, address] : bindings) at[tensor] = address;
    return [=](bool wrong) {
      Values values(d->layouts.size());
      for (const Id id : d->inputs) values[id - 1] = load(*d->layouts[id - 1], at.at(id), tf32);
      for (const auto& node : d->nodes) node(values, tf32);
      for (const Id id : d->outputs) {
        if (wrong) values[id - 1].at[0] += 100;
        store(values[id - 1], *d->layouts[id - 1], at.at(id));
      }
    };
  });
}

}  // namespace bellows::cudnn
