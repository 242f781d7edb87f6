// copy_into, cast and contiguous for arbitrary strides and every pair of dtypes.
#include "core/tensor/copy.h"
#include <gtest/gtest.h>
#include "core/tensor/foreach.h"
#include "core/tensor/rng.h"
#include "core/tensor/step_state.h"

using namespace bellows;

static constexpr DType kAll[] = {DType::f64, DType::f32, DType::bf16, DType::f16,
                                 DType::i64, DType::i32, DType::u8};

namespace {

// Sequence of random integers.
class Draws {
 public:
  explicit Draws(uint64_t seed) : rng_({.seed = seed}) {}
  int64_t below(int64_t n) { return int64_t(rng_.below(n, next_++)); }

 private:
  Philox rng_;
  uint64_t next_ = 0;
};

struct Layout {
  Shape shape;
  Strides strides;
  int64_t offset = 0, storage = 0;  // elements
};

// Returns a layout with permuted axes, some with gaps. With `repeat` (sources only), some axes have
// stride 0.
Layout random_layout(const Shape& shape, Draws& draws, bool repeat) {
  Layout layout{shape, shape, draws.below(5), 0};
  std::array<int, kMaxRank> order{};
  for (int i = 0; i < shape.rank(); ++i) order[i] = i;
  for (int i = shape.rank() - 1; i > 0; --i) std::swap(order[i], order[draws.below(i + 1)]);
  int64_t step = 1;
  for (int k = 0; k < shape.rank(); ++k) {
    const int axis = order[k];
    if (repeat && draws.below(5) == 0) {
      layout.strides[axis] = 0;
      continue;
    }
    layout.strides[axis] = step * (draws.below(4) == 0 ? 2 : 1);
    step = layout.strides[axis] * shape[axis];
  }
  layout.storage = layout.offset + step + 1;
  return layout;
}

Shape random_shape(Draws& draws) {
  Shape shape;
  for (int64_t rank = draws.below(5); rank > 0; --rank) shape.push_back(1 + draws.below(6));
  return shape;
}

Tensor with_layout(const Layout& layout, DType dtype) {
  const Tensor block({layout.storage}, dtype);
  fill(block, 0);
  return block.view(layout.shape, layout.strides, layout.offset);
}

// Offset in elements of the i-th element in row-major order.
int64_t place_of(const Tensor& t, int64_t i) {
  int64_t place = 0;
  for (int axis = t.rank() - 1; axis >= 0; --axis) {
    place += i % t.dim(axis) * t.strides()[axis];
    i /= t.dim(axis);
  }
  return place;
}
double get(const Tensor& t, int64_t i) {
  return visit_dtype(t.dtype(), [&]<class T>(T) { return double(t.ptr<T>()[place_of(t, i)]); });
}
void set(const Tensor& t, int64_t i, double value) {
  visit_dtype(t.dtype(), [&]<class T>(T) { t.ptr<T>()[place_of(t, i)] = T(value); });
}

}  // namespace

// Integers below 200 are exact in all seven dtypes, so a copy must preserve them.
TEST(Copy, KeepsEveryElementForAnyTypesAndStrides) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Draws draws(seed);
    const Shape shape = random_shape(draws);
    const DType to_type = kAll[draws.below(7)], from_type = kAll[draws.below(7)];
    const Tensor from = with_layout(random_layout(shape, draws, true), from_type);
    const Tensor to = with_layout(random_layout(shape, draws, false), to_type);
    for (int64_t i = 0; i < from.numel(); ++i) set(from, i, double(draws.below(200)));
    copy_into(to, from);
    for (int64_t i = 0; i < to.numel(); ++i)
      ASSERT_EQ(get(to, i), get(from, i))
          << "seed " << seed << ": element " << i << " of " << shape << ", " << from_type << " "
          << from.strides() << " to " << to_type << " " << to.strides();
  }
}

TEST(Copy, WritesNothingBesideItsTarget) {
  const Tensor block = full({6, 8}, -1), from = full({6, 4}, 3);
  copy_into(block.view({6, 4}, {8, 2}, 1), from);
  for (int64_t i = 0; i < 48; ++i) EXPECT_EQ(block.data<float>()[i], i % 2 ? 3 : -1) << i;
}

TEST(Copy, EveryPairOfTypesConvertsLikeTheLanguage) {
  for (const DType from : kAll)
    for (const DType to : kAll) {
      const Tensor x = cast(tensor_of<float>({0, 1, 2, 100, 7.75}, {5}), from);
      const Tensor y = cast(x, to);
      EXPECT_EQ(y.dtype(), to);
      for (int64_t i = 0; i < 5; ++i) {
        const double expected = is_float(to) ? get(x, i) : std::trunc(get(x, i));
        EXPECT_EQ(get(y, i), expected) << from << " to " << to;
      }
      if (size_of(from) < 4 || size_of(to) < 4 || from == DType::f32 || to == DType::f32) continue;
      const double wide = (1 << 24) + 1;  // it would not survive a conversion through f32
      set(x, 0, wide);
      EXPECT_EQ(get(cast(x, to), 0), wide) << from << " to " << to;
    }
}

// Large enough for several chunks and for the tiles of a transpose.
TEST(Copy, VisitsEveryElementInEveryFormat) {
  const Shape shape{19, 33, 21, 18};
  const Tensor x(shape, DType::f32);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = float(i);
  for (const MemoryFormat& a : {kNCHW, kNHWC, kCHWN})
    for (const MemoryFormat& b : {kNCHW, kNHWC, kCHWN}) {
      const Tensor back = contiguous(contiguous(contiguous(x, a), b));
      EXPECT_TRUE(std::ranges::equal(back.data<float>(), x.data<float>())) << a.name << b.name;
    }
}

TEST(Copy, CastKeepsTheFormatAndReturnsWhatIsRightAlready) {
  const Tensor nhwc({2, 3, 4, 5}, DType::f32, Device::cpu, kNHWC);
  EXPECT_TRUE(cast(nhwc, DType::bf16).is_contiguous(kNHWC));
  EXPECT_EQ(cast(nhwc, DType::f32).storage(), nhwc.storage());
  EXPECT_EQ(contiguous(nhwc, kNHWC).storage(), nhwc.storage());
  EXPECT_EQ(to(Device::cpu, nhwc).storage(), nhwc.storage());
  EXPECT_NE(clone(nhwc).storage(), nhwc.storage());
}

// ---- foreach

TEST(Foreach, CopiesEachUnlessItsUpdateWasApplied) {
  const std::vector<Tensor> from{full({2, 3}, NAN), full({}, 7, DType::i64)};
  const auto copied = [&](const StepState* state) {
    const std::vector<Tensor> to{full({2, 3}, 1), full({}, 1, DType::i64)};
    copy_each(to, from, state);
    return std::isnan(get(to[0], 5)) && get(to[1], 0) == 7;
  };
  const StepState applied, skipped{.found_inf = 1};
  EXPECT_TRUE(copied(nullptr));
  EXPECT_TRUE(copied(&skipped));
  EXPECT_FALSE(copied(&applied));
}
