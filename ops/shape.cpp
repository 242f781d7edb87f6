#include "ops/shape.h"
#include <optional>
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "ops/base/broadcast.h"
#include "ops/base/op.h"
#include "ops/base/work.h"
#include "ops/reduce.h"

namespace bellows {

// Returns the strides with which `shape` views x in row-major order, or nothing if there are none.
static std::optional<Strides> strides_under(const Tensor& x, const Shape& shape) {
  if (x.is_contiguous()) return strides_of(shape);
  // Merge axes of x that are contiguous with each other into runs.
  Shape size, step;
  for (int i = 0; i < x.rank(); ++i) {
    const int64_t n = x.dim(i), s = x.strides()[i];
    if (n == 1) continue;
    if (size.rank() && step[-1] == s * n) {
      size[-1] *= n, step[-1] = s;
    } else {
      size.push_back(n), step.push_back(s);
    }
  }
  // Each axis of the shape, from the last one, takes its part of the last remaining run.
  Strides strides = shape;
  int run = size.rank() - 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] == 1) continue;
    if (size[run] % shape[i] != 0) return std::nullopt;
    strides[i] = step[run];
    step[run] *= shape[i];
    size[run] /= shape[i];
    if (size[run] == 1 && run > 0) --run;
  }
  return strides;
}

static Tensor reshaped(const Tensor& x, const Shape& shape) {
  if (const auto strides = strides_under(x, shape)) return x.view(shape, *strides, x.offset());
  return contiguous(x).view_as(shape);
}

static Tensor record_reshape(const char* op, const Tensor& x, const Shape& shape) {
  return record(op, reshaped(x, shape), {x},
                [from = x.shape()](const Tensor& dy) { return Grads{reshaped(dy, from)}; });
}

// Views move no bytes.
static OpWork no_work(const RecordedOp&) { return {}; }
static const AddWork works[] = {{"reshape", no_work}, {"flatten", no_work}, {"permute", no_work}};

Tensor reshape(const Tensor& x, const Shape& shape) {
  Shape full = shape;
  const auto open = std::ranges::find(shape, -1);
  if (open != shape.end()) {
    const int64_t rest = -shape.numel();
    full[static_cast<int>(open - shape.begin())] = rest > 0 ? x.numel() / rest : 0;
  }
  const bool negative = std::ranges::any_of(full, [](int64_t n) { return n < 0; });
  CHECK(!negative && full.numel() == x.numel(), "reshape: x ", x.shape(), " has ", x.numel(),
        " elements, which do not fill ", shape);
  return record_reshape("reshape", x, full);
}

Tensor flatten(const Tensor& x) {
  CHECK(x.rank() >= 2, "flatten: x ", x.shape(), " has less than two axes");
  Shape shape{x.dim(0), 1};
  for (int i = 1; i < x.rank(); ++i) shape[1] *= x.dim(i);
  return record_reshape("flatten", x, shape);
}

static Tensor permuted(const Tensor& x, const Shape& order) {
  Shape shape = order;
  Strides strides = order;
  for (int i = 0; i < order.rank(); ++i) {
    shape[i] = x.dim(static_cast<int>(order[i]));
    strides[i] = x.strides()[static_cast<int>(order[i])];
  }
  return x.view(shape, strides, x.offset());
}

Tensor permute(const Tensor& x, const Shape& order) {
  Shape inverse = order;
  std::array<bool, kMaxRank> seen{};
  CHECK(order.rank() == x.rank(), "permute: ", order, " of the axes of x ", x.shape());
  for (int i = 0; i < order.rank(); ++i) {
    CHECK(order[i] >= 0 && order[i] < x.rank() && !seen[order[i]], "permute: ", order,
          " is not an order of the axes of x ", x.shape());
    seen[order[i]] = true;
    inverse[static_cast<int>(order[i])] = i;
  }
  return record("permute", permuted(x, order), {x},
                [inverse](const Tensor& dy) { return Grads{permuted(dy, inverse)}; });
}

Tensor expand(const Tensor& x, const Shape& shape) {
  CHECK(broadcast_shape(shape, x.shape(), "expand") == shape, "expand: x ", x.shape(),
        " does not stretch to ", shape);
  return record("expand", broadcast_to(x, shape), {x},
                [from = x.shape()](const Tensor& dy) { return Grads{kernels::sum_to(dy, from)}; });
}

static Tensor sliced(const Tensor& x, int axis, int64_t begin, int64_t end) {
  Shape shape = x.shape();
  shape[axis] = end - begin;
  return x.view(shape, x.strides(), x.offset() + begin * x.strides()[axis]);
}

Tensor slice(const Tensor& x, int axis_, int64_t begin, int64_t end) {
  const int axis = axis_of(axis_, x.shape(), "slice");
  CHECK(begin >= 0 && begin <= end && end <= x.dim(axis), "slice: [", begin, ", ", end,
        ") of axis ", axis, " of x ", x.shape());
  return record("slice", sliced(x, axis, begin, end), {x},
                [shape = x.shape(), axis, begin, end](const Tensor& dy) {
                  const Tensor dx = full(shape, 0, dy);
                  copy_into(sliced(dx, axis, begin, end), dy);
                  return Grads{dx};
                });
}

Tensor concat(std::span<const Tensor> parts, int axis_) {
  CHECK(!parts.empty(), "concat: no tensors");
  const Tensor& first = parts.front();
  const int axis = axis_of(axis_, first.shape(), "concat");
  Shape shape = first.shape();
  shape[axis] = 0;
  for (const Tensor& part : parts) {
    Shape rest = part.shape();
    if (rest.rank() == first.rank()) rest[axis] = first.dim(axis);
    CHECK(rest == first.shape() && part.dtype() == first.dtype(), "concat along axis ", axis, ": ",
          part.dtype(), " ", part.shape(), " does not match ", first.dtype(), " ", first.shape());
    shape[axis] += part.dim(axis);
  }
  const Tensor y = empty(shape, first);
  std::vector<int64_t> ends;
  for (const Tensor& part : parts) {
    const int64_t begin = ends.empty() ? 0 : ends.back();
    ends.push_back(begin + part.dim(axis));
    copy_into(sliced(y, axis, begin, ends.back()), part);
  }
  return record("concat", y, parts, [axis, ends](const Tensor& dy) {
    Grads grads;
    for (int64_t begin = 0; const int64_t end : ends)
      grads.push_back(sliced(dy, axis, std::exchange(begin, end), end));
    return grads;
  });
}

// ---- specs

static AddOp spec(const char* name, const char* math, const std::vector<Shapes>& cases, OpFn run,
                  const std::vector<Shapes>& rejects) {
  return AddOp(
      {.name = name, .math = math, .cases = cases, .run = std::move(run), .rejects = rejects});
}
static const AddOp specs[] = {
    spec("reshape", "the same elements in another shape",
         {{{2, 3, 4}}, {{2, 3, 4, 5}}, {{2, 1, 6}}},
         [](const Inputs& in) {
           return reshape(in[0], Shape{6, -1});
         },
         {{{5}}}),
    spec("flatten", "(N, C, H, W) to (N, C * H * W)", {{{2, 3}}, {{2, 3, 4, 5}}},
         [](const Inputs& in) { return flatten(in[0]); }, {{{5}}}),
    spec("permute", "axes in another order", {{{2, 3, 4}}},
         [](const Inputs& in) {
           return permute(in[0], Shape{2, 0, 1});
         },
         {{{2, 3}}}),
    spec("expand", "x repeated along axes of size 1", {{{3, 1}}, {{1, 4}}, {{}}, {{3, 4}}},
         [](const Inputs& in) {
           return expand(in[0], Shape{2, 3, 4});
         },
         {{{2, 4}}, {{2, 2, 3, 4}}}),
    spec("slice", "elements [1, 3) of axis 1", {{{2, 3}}, {{2, 5, 4, 3}}},
         [](const Inputs& in) { return slice(in[0], 1, 1, 3); }, {{{4}}, {{3, 2}}}),
    spec("concat", "tensors one after the other along an axis",
         {{{2, 3}, {2, 1}}, {{2, 3, 4, 5}, {2, 2, 4, 5}}},
         [](const Inputs& in) { return concat(in, 1); },
         {{{2, 3}, {3, 3}}, {{2, 3}, {2, 3, 1}}, {{2}, {2}}}),
};

}  // namespace bellows
