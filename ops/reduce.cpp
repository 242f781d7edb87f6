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

Tensor max(const Tensor& x, const ReduceOptions& options) {
  const Reduced r = reduced_shapes("max", x, options);
  CHECK(x.numel() > 0, "max: x ", x.shape(), " is empty");
  const auto [y, index] = kernels::max(x, r.kept);
  if (!will_record(x)) return y.view_as(r.y);
  return record("max", y.view_as(r.y), {x},
                [index = Saved(index), shape = x.shape()](const Tensor& dy) {
                  return Grads{kernels::max_backward(dy, index(), shape)};
                });
}

Tensor argmax(const Tensor& x, int axis) {
  const Reduced r = reduced_shapes("argmax", x, {.axes = {axis}});
  CHECK(x.numel() > 0, "argmax: x ", x.shape(), " is empty");
  return kernels::argmax(x, axis_of(axis, x.shape(), "argmax")).view_as(r.y);
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  CHECK(broadcast_shape(x.shape(), shape, "sum_to") == x.shape(), "sum_to: ", shape,
        " does not broadcast to x ", x.shape());
  return record("sum_to", kernels::sum_to(x, shape), {x},
                [full = x.shape()](const Tensor& dy) { return Grads{broadcast_to(dy, full)}; });
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
           .large = large,
           .distinct = true});
  };
  add("all", {}, {{{1}}, {{7}}, {{2, 3, 4, 5}}}, {}, {{{300, 400}}});
  add("axis 1", {.axes = {1}}, {{{2, 5}}, {{2, 3, 4}}, {{2, 3, 4, 5}}}, {{{4}}},
      {{{300, 400}}, {{2, 1501, 20}}});
  add("first and last axis, keepdim", {.axes = {0, -1}, .keepdim = true},
      {{{2, 5}}, {{2, 3, 4, 5}}}, {}, {{{200, 3, 200}}});
  return true;
}
static const bool specs = add_specs("sum", "sum of x over axes", sum) &&
                          add_specs("mean", "mean of x over axes", mean) &&
                          add_specs("max", "largest of x over axes", max);
static const AddOp argmax_spec({.name = "argmax",
                                .math = "index of the largest of x along an axis",
                                .cases = {{{2, 5}}, {{2, 3, 4, 5}}},
                                .run = [](const Inputs& in) { return argmax(in[0], 1); },
                                .rejects = {{{4}}},
                                .large = {{{300, 400}}},
                                .distinct = true,
                                .differentiable = false});
static Tensor run_sum_to(const Inputs& in) {
  return sum_to(in[0], {in[0].dim(-3), 1, in[0].dim(-1)});
}
static const AddOp sum_to_spec({.name = "sum_to",
                                .math = "sum of x over what a broadcast has stretched",
                                .cases = {{{2, 3, 4, 5}}, {{3, 1, 2}}},
                                .run = run_sum_to,
                                .large = {{{200, 3, 200}}}});

// ---- CPU: one accumulator per element of y, folded over x in memory order

namespace {

template <class T> struct SumOf {
  using Acc = double;
  static void add(Acc& sum, const T* x) { sum += *x; }
  static void merge(Acc& sum, Acc part) { sum += part; }
  // Eight partial sums: vectorizable, in a fixed order.
  static void add_row(Acc& sum, const T* x, int64_t n) {
    double lanes[8] = {};
    const int64_t whole = n / 8 * 8;
    for (int64_t i = 0; i < whole; i += 8)
      for (int k = 0; k < 8; ++k) lanes[k] += x[i + k];
    for (int64_t i = whole; i < n; ++i) lanes[i - whole] += x[i];
    for (const double lane : lanes) sum += lane;
  }
};

template <class T> struct MaxOf {
  using Acc = const T*;
  static void add(Acc& best, const T* x) {
    if (!best || *x > *best || (*x != *x && *best == *best)) best = x;
  }
  static void merge(Acc& best, Acc part) { add(best, part); }
  static void add_row(Acc& best, const T* x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) add(best, x + i);
  }
};

// Split of x along its outermost axis in memory, for any number of threads. If the axis is kept,
// parts have disjoint accumulators (`apart`); else each has a full set, merged in order.
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

template <class R, class T>
void fold_part(const T* x, const Shape& shape, const Strides& strides, const Strides& slot,
               typename R::Acc* acc) {
  const Walk<2> walk(shape, {&strides, &slot});
  walk.for_rows(0, walk.rows, [&](const auto& at) {
    const auto [x_step, slot_step] = walk.steps;
    const T* const row = x + at[0];
    typename R::Acc* const to = acc + at[1];
    if (x_step == 1 && slot_step == 0) return R::add_row(*to, row, walk.length);
    for (int64_t i = 0; i < walk.length; ++i) R::add(to[i * slot_step], row + i * x_step);
  });
}

// Returns one accumulator per element of `kept`, in row-major order.
template <class R, class T> std::vector<typename R::Acc> fold(const Tensor& x, const Shape& kept) {
  if (x.rank() == 0) return fold<R, T>(x.view({1}, {1}, x.offset()), {1});
  const int64_t slots = kept.numel();
  std::vector<typename R::Acc> acc(slots);
  if (x.numel() == 0) return acc;
  Strides slot = strides_of(kept);
  for (int i = 0; i < x.rank(); ++i)
    if (kept[i] != x.dim(i)) slot[i] = 0;
  const Cut cut = plan_cut(x, slot, slots);
  if (!cut.apart) acc.resize(slots * cut.parts);
  parallel_for(x.dim(cut.axis), cut.length, [&](int64_t b, int64_t e) {
    Shape part = x.shape();
    part[cut.axis] = e - b;
    const int64_t first = cut.apart ? b * slot[cut.axis] : b / cut.length * slots;
    fold_part<R>(x.ptr<T>() + b * x.strides()[cut.axis], part, x.strides(), slot, &acc[first]);
  });
  for (size_t i = slots; i < acc.size(); ++i) R::merge(acc[i % slots], acc[i]);
  acc.resize(slots);
  return acc;
}

}  // namespace

static Tensor sum_cpu(const Tensor& x, const Shape& kept, double factor) {
  const Tensor y = empty(kept, x);
  visit_float(x.dtype(), [&]<class T>(T) {
    std::ranges::transform(fold<SumOf<T>, T>(x, kept), y.ptr<T>(),
                           [&](double sum) { return T(sum * factor); });
  });
  return y;
}

// Folds a row-major x, so that the first maximum in memory is the first by index.
static kernels::Max max_cpu(const Tensor& x, const Shape& kept) {
  const Tensor dense = contiguous(x), y = empty(kept, x), index(kept, DType::i64);
  visit_stored(x.dtype(), [&]<class T>(T) {
    const auto best = fold<MaxOf<T>, T>(dense, kept);
    for (size_t i = 0; i < best.size(); ++i) {
      y.ptr<T>()[i] = *best[i];
      index.ptr<int64_t>()[i] = best[i] - dense.ptr<T>();
    }
  });
  return {y, index};
}

static Tensor argmax_cpu(const Tensor& x, int axis) {
  Shape kept = x.shape();
  kept[axis] = 1;
  const Tensor index = max_cpu(x, kept).index;
  for (int64_t& i : index.data<int64_t>()) i = i / strides_of(x.shape())[axis] % x.dim(axis);
  return index;
}

static Tensor max_backward_cpu(const Tensor& dy, const Tensor& index, const Shape& shape) {
  const Tensor dense = contiguous(dy), dx = full(shape, 0, dy);
  visit_stored(dy.dtype(), [&]<class T>(T) {
    for (int64_t i = 0; i < dy.numel(); ++i)
      dx.ptr<T>()[index.ptr<int64_t>()[i]] = dense.ptr<T>()[i];
  });
  return dx;
}

static const bool cpu = kernels::sum.on(Device::cpu, in_f32<sum_cpu>) &&
                        kernels::max.on(Device::cpu, max_cpu) &&
                        kernels::argmax.on(Device::cpu, argmax_cpu) &&
                        kernels::max_backward.on(Device::cpu, max_backward_cpu);

}  // namespace bellows
