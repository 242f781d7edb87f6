#include "ops/reduce.h"
#include "core/base/round.h"
#include "core/device/parallel.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "core/tensor/in_f32.h"
#include "core/tensor/walk.h"
#include "ops/base/map.h"
#include "ops/base/op.h"
#include "ops/elementwise.h"

namespace bellows {

namespace {

struct Reduced {
  Shape kept;  // shape of x with 1 for every reduced axis
  Shape y;     // without those axes, unless keepdim
};

Reduced reduced_shapes(const char* op, const Tensor& x, const ReduceOptions& options) {
  std::array<bool, kMaxRank> goes{};
  goes.fill(options.axes.empty());
  for (const int64_t axis : options.axes) goes[axis_of(int(axis), x.shape(), op)] = true;
  Reduced r{x.shape(), {}};
  for (int i = 0; i < x.rank(); ++i) {
    if (goes[i]) r.kept[i] = 1;
    if (!goes[i] || options.keepdim) r.y.push_back(r.kept[i]);
  }
  return r;
}

// Views t with axes of size 1 inserted or dropped to match `shape`.
Tensor with_ones(const Tensor& t, const Shape& shape) {
  Strides strides = shape;
  for (int i = 0, from = 0; i < shape.rank(); ++i) {
    if (shape[i] == 1) continue;
    while (t.dim(from) == 1) ++from;
    strides[i] = t.strides()[from++];
  }
  return t.view(shape, strides, t.offset());
}

Tensor scaled_sum(const char* op, const Tensor& x, const ReduceOptions& options, bool averaged) {
  const Reduced r = reduced_shapes(op, x, options);
  const double factor = averaged ? double(r.kept.numel()) / x.numel() : 1;
  const Tensor y = kernels::sum(x, r.kept, factor).view_as(r.y);
  return record(op, y, {x}, [kept = r.kept, shape = x.shape(), factor](const Tensor& dy) {
    const Tensor share = factor == 1 ? dy : kernels::affine(dy, factor, 0);
    return Grads{broadcast_to(with_ones(share, kept), shape)};
  });
}

}  // namespace

Tensor sum(const Tensor& x, const ReduceOptions& options) {
  return scaled_sum("sum", x, options, false);
}
Tensor mean(const Tensor& x, const ReduceOptions& options) {
  return scaled_sum("mean", x, options, true);
}

Tensor kernels::sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  Shape kept = x.shape();
  for (int k = 1; k <= kept.rank(); ++k) kept[-k] = k <= shape.rank() ? shape[-k] : 1;
  return kernels::sum(x, kept, 1).view_as(shape);
}

using Reduction = Tensor (*)(const Tensor&, const ReduceOptions&);
static bool add_specs(const char* name, const char* math, Reduction op) {
  const auto add = [&](const char* variant, const ReduceOptions& options,
                       const std::vector<Shapes>& cases, const std::vector<Shapes>& rejects,
                       const std::vector<Shapes>& large) {
    AddOp({.name = name,
           .math = math,
           .cases = cases,
           .run = [op, options](const Inputs& in) { return op(in[0], options); },
           .rejects = rejects,
           .variant = variant,
           .large = large});
  };
  add("all", {}, {{{1}}, {{7}}, {{2, 3, 4, 5}}}, {}, {{{300, 400}}});
  add("axis 1", {.axes = {1}}, {{{2, 5}}, {{2, 3, 4}}, {{2, 3, 4, 5}}}, {{{4}}},
      {{{300, 400}}, {{2, 1501, 20}}});
  add("first and last axis, keepdim", {.axes = {0, -1}, .keepdim = true},
      {{{2, 5}}, {{2, 3, 4, 5}}}, {}, {{{200, 3, 200}}});
  return true;
}
static const bool specs =
    add_specs("sum", "sum of x over axes", sum) && add_specs("mean", "mean of x over axes", mean);

// ---- CPU: one double per element of y, summed over x in memory order

namespace {

// Eight partial sums: vectorizable, in a fixed order.
template <class T> void add_row(double& sum, const T* x, int64_t n) {
  double lanes[8] = {};
  const int64_t whole = n / 8 * 8;
  for (int64_t i = 0; i < whole; i += 8)
    for (int k = 0; k < 8; ++k) lanes[k] += x[i + k];
  for (int64_t i = whole; i < n; ++i) lanes[i - whole] += x[i];
  for (const double lane : lanes) sum += lane;
}

// Split of x along its outermost axis in memory, for any number of threads. If the axis is kept,
// parts have disjoint sums (`apart`); else each has a full set, added up in order.
struct Cut {
  int axis = 0;
  bool apart;
  int64_t length, parts;
};
Cut plan_cut(const Tensor& x, const Strides& slot, int64_t slots) {
  Cut cut;
  const auto reach = [&](int i) { return x.dim(i) > 1 ? x.strides()[i] : 0; };
  for (int i = 1; i < x.rank(); ++i)
    if (reach(i) > reach(cut.axis)) cut.axis = i;
  cut.apart = slot[cut.axis] != 0;
  const int64_t size = x.dim(cut.axis), most = cut.apart ? size : x.numel() / (4 * slots);
  const int64_t parts = std::max<int64_t>(std::min({size, most, x.numel() / kMapChunk}), 1);
  cut.length = ceil_div(size, parts);
  cut.parts = ceil_div(size, cut.length);
  return cut;
}

template <class T>
void sum_part(const T* x, const Shape& shape, const Strides& strides, const Strides& slot,
              double* sums) {
  const Walk<2> walk(shape, {&strides, &slot});
  walk.for_rows(0, walk.rows, [&](const auto& at) {
    const auto [x_step, slot_step] = walk.steps;
    const T* const row = x + at[0];
    double* const to = sums + at[1];
    if (x_step == 1 && slot_step == 0) return add_row(*to, row, walk.length);
    for (int64_t i = 0; i < walk.length; ++i) to[i * slot_step] += row[i * x_step];
  });
}

// Returns one sum per element of `kept`, in row-major order.
template <class T> std::vector<double> sums_over(const Tensor& x, const Shape& kept) {
  if (x.rank() == 0) return sums_over<T>(x.view({1}, {1}, x.offset()), {1});
  const int64_t slots = kept.numel();
  std::vector<double> sums(slots);
  if (x.numel() == 0) return sums;
  Strides slot = strides_of(kept);
  for (int i = 0; i < x.rank(); ++i)
    if (kept[i] != x.dim(i)) slot[i] = 0;
  const Cut cut = plan_cut(x, slot, slots);
  if (!cut.apart) sums.resize(slots * cut.parts);
  parallel_for(x.dim(cut.axis), cut.length, [&](int64_t b, int64_t e) {
    Shape part = x.shape();
    part[cut.axis] = e - b;
    const int64_t first = cut.apart ? b * slot[cut.axis] : b / cut.length * slots;
    sum_part(x.ptr<T>() + b * x.strides()[cut.axis], part, x.strides(), slot, &sums[first]);
  });
  for (size_t i = slots; i < sums.size(); ++i) sums[i % slots] += sums[i];
  sums.resize(slots);
  return sums;
}

}  // namespace

static Tensor sum_cpu(const Tensor& x, const Shape& kept, double factor) {
  const Tensor y = empty(kept, x);
  visit_float(x.dtype(), [&]<class T>(T) {
    std::ranges::transform(sums_over<T>(x, kept), y.ptr<T>(),
                           [&](double sum) { return T(sum * factor); });
  });
  return y;
}

static const bool cpu = kernels::sum.on(Device::cpu, in_f32<sum_cpu>);

}  // namespace bellows
