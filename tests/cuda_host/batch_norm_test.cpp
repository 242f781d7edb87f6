// Batch normalization on the device beyond the generic suite: every division of rows into pieces,
// and cancellation.
#include "ops/norm/batch_norm.h"
#include "ops/elementwise.h"
#include "tests/cuda_host/beside_cpu.h"

using namespace cuda_host;

namespace {

// Pieces of 16 bytes and of one element, several groups of rows, several tiles of channels. Planes
// that are not a multiple of 16 bytes in an image that is, and planes of one pixel.
const Shape kShapes[] = {{1, 16, 30, 35}, {2, 40, 13, 12}, {1, 300, 10, 13}, {3, 17, 7, 7},
                         {33, 3, 16, 16}, {35, 3, 15, 17}, {40, 8, 5, 7},    {40, 24, 1, 1}};

struct Job {
  Tensor x, residual, dy, weight, bias, more = {};  // the gradient of y is dy + more
};
Job job_of(const Shape& shape, DType dtype) {
  return {normal(shape, 1, dtype), normal(shape, 2, dtype), normal(shape, 3, dtype),
          normal({shape[1]}, 4), normal({shape[1]}, 5)};
}

NormAct act_of(bool relu) { return relu ? NormAct::relu : NormAct::none; }

struct Answer {
  Tensor statistics, y, dw, db, dx, dresidual;
};
// Runs forward and backward with `statistics`, or with those of x if undefined.
Answer answer(const Job& job, bool relu, Tensor statistics = {}) {
  const auto& [x, residual, dy, weight, bias, more] = job;
  Answer a;
  a.statistics = kernels::channel_statistics(x, {});
  if (!statistics.defined()) statistics = a.statistics;
  const kernels::Normalization norm{statistics, weight, bias, 1e-5};
  const auto [y, bits] = kernels::batch_norm(x, norm, relu ? residual : Tensor(), act_of(relu));
  a.y = y, a.dw = zeros(weight.shape(), weight.dtype(), weight.device());
  a.db = clone(a.dw);
  const auto [g, mask] =
      kernels::batch_norm_backward_w(dy, more, x, norm, bits, false, relu, a.dw, a.db);
  a.dx = kernels::batch_norm_backward_x(g, x, norm, a.dw, a.db, mask);
  if (relu) a.dresidual = g;
  return a;
}

void expect_close(const Answer& want, const Answer& got, DType dtype) {
  const double rounded = tolerance_of(dtype), sums = 4 * tolerance_of(precise(dtype));
  EXPECT_LE(difference(want.statistics, got.statistics), sums) << "statistics";
  EXPECT_LE(difference(want.y, got.y), rounded) << "y";
  EXPECT_LE(difference(want.dw, got.dw), sums) << "dw";
  EXPECT_LE(difference(want.db, got.db), sums) << "db";
  EXPECT_LE(difference(want.dx, got.dx), rounded) << "dx";
  EXPECT_EQ(want.dresidual.defined(), got.dresidual.defined());
  if (!want.dresidual.defined()) return;
  EXPECT_LE(difference(want.dresidual, got.dresidual), rounded) << "dresidual";
}

void expect_norm(const Shape& shape, DType dtype, bool relu,
                 const std::function<Tensor(const Tensor&)>& placed) {
  SCOPED_TRACE(cat(shape, " ", dtype, relu ? " relu" : ""));
  const Job job = job_of(shape, dtype);
  const auto move = [&](const Tensor& t) { return placed(on_device(t, dtype)); };
  const auto parameter = [&](const Tensor& t) { return on_device(t, precise(dtype)); };
  const Answer want = answer(job, relu);
  // Uses the CPU's statistics, so that the ReLU masks are equal.
  const Answer got = answer(
      {move(job.x), move(job.residual), move(job.dy), parameter(job.weight), parameter(job.bias)},
      relu, parameter(want.statistics));
  expect_close(want, got, dtype);
}

struct Norm : InAnyOrder {};

}  // namespace

TEST_P(Norm, OfEveryCut) {
  for (const Shape& shape : kShapes)
    for (const MemoryFormat& format : {kNCHW, kNHWC})
      expect_norm(shape, DType::f32, true, [&](const Tensor& t) { return contiguous(t, format); });
}

TEST_P(Norm, OfEveryDtype) {
  for (const DType dtype : kFloats)
    for (const Shape& shape : {Shape{2, 24, 13, 12}, {40, 8, 5, 7}})
      for (const MemoryFormat& format : {kNCHW, kNHWC})
        expect_norm(shape, dtype, false, [&](const Tensor& t) { return contiguous(t, format); });
}

TEST_P(Norm, OfAMatrix) {
  for (const Shape& shape : {Shape{700, 40}, {300, 7}, {2, 1}})
    expect_norm(shape, DType::bf16, true, [](const Tensor& t) { return t; });
}

// x is aligned for pieces of 16 bytes, the residual and the gradient are not.
TEST_P(Norm, OfTensorsThatLieAskew) {
  int64_t moved = 0;
  expect_norm({5, 16, 13, 12}, DType::bf16, true, [&](const Tensor& t) {
    const int64_t offset = moved++;  // 0 for x, 1 for the residual, 2 for the gradient
    const Tensor room({t.numel() + offset}, t.dtype(), t.device());
    const Tensor y = room.view(t.shape(), strides_of(t.shape(), kNHWC), offset);
    kernels::copy(y, t);
    return y;
  });
}

// Mean 10000, standard deviation 1. With `blank` the first image is 0, so the first element of the
// tensor is a bad pivot for all others.
TEST_P(Norm, LargeNumbersDoNotCancel) {
  for (const MemoryFormat& format : {kNCHW, kNHWC})
    for (const bool blank : {false, true}) {
      SCOPED_TRACE(cat(format.name, blank ? " blank" : ""));
      const Shape shape{130, 12, 9, 8};
      const Tensor x = normal(shape, 1);
      for (int64_t i = 0; i < x.numel(); ++i)
        x.data<double>()[i] = blank && i < x.numel() / 130 ? 0 : x.data<double>()[i] + 1e4;
      const Tensor x_ = contiguous(on_device(x, DType::f32), format);
      const Tensor want = kernels::channel_statistics(cast(cast(x, DType::f32), DType::f64), {});
      const Tensor got = to(Device::cpu, kernels::channel_statistics(x_, {}));
      synchronize(current_stream(Device::cuda));
      for (int64_t c = 0; c < 24; ++c)
        EXPECT_NEAR(got.data<float>()[c] / want.data<double>()[c], 1, c < 12 ? 2e-7 : 5e-5) << c;
    }
}

// ReLU sets y <= 0 to 0 and passes NaN.
TEST_P(Norm, ReluLetsNaNPass) {
  const Tensor x = tensor_of<float>({NAN, -1, 0, 2}, {4, 1}, Device::cuda);
  const Tensor one = full({1}, 1, DType::f32, Device::cuda),
               zero = zeros({1}, DType::f32, Device::cuda);
  const Tensor statistics = tensor_of<float>({0, 1}, {2, 1}, Device::cuda);
  const kernels::Normalization norm{statistics, one, zero, 0};
  const auto [y, bits] = kernels::batch_norm(x, norm, {}, NormAct::relu);
  const Tensor dy = full({4, 1}, 3, DType::f32, Device::cuda);
  const Tensor dw = clone(one), db = clone(one);
  const Tensor g = kernels::batch_norm_backward_w(dy, {}, x, norm, bits, false, true, dw, db).dy;
  EXPECT_EQ(difference(tensor_of<double>({NAN, 0, 0, 2}, {4, 1}), y), 0);
  EXPECT_EQ(difference(tensor_of<double>({3, 0, 0, 3}, {4, 1}), g), 0);
}

// The kernels that compute the statistics update the running ones as a launch of its own would.
TEST_P(Norm, UpdatesRunningStatisticsOfBothPrecisions) {
  for (const DType dtype : {DType::bf16, DType::f64})
    for (const DType kept : {DType::f32, DType::f64})
      for (const bool apart : {false, true}) {
        SCOPED_TRACE(cat(dtype, " ", kept, apart ? " apart" : ""));
        const auto run = [&](Device device) {
          const RunningUpdate update{{full({24}, 1, kept, device), full({24}, 2, kept, device),
                                      full({}, 7, DType::i64, device)},
                                     0.1,
                                     1.25};
          const Tensor x = contiguous(to(device, cast(normal({9, 24, 5, 7}, 1), dtype)), kNHWC);
          const Tensor statistics =
              kernels::channel_statistics(x, apart ? RunningUpdate() : update);
          if (apart) kernels::update_running(statistics, update);
          return update;
        };
        const RunningUpdate want = run(Device::cpu), got = run(Device::cuda);
        EXPECT_LE(difference(want.mean, got.mean), dtype == kept ? 1e-14 : 2e-7);
        EXPECT_LE(difference(want.var, got.var), dtype == kept ? 1e-14 : 2e-7);
        EXPECT_EQ(difference(want.batches, got.batches), 0);
      }
}

// Backward adds two gradients as from their sum, rounded to their dtype. The gradient of the
// residual has the same bits. Sums over a channel may differ in the last place, because the
// compiler fuses other multiply-adds.
TEST_P(Norm, AddsTwoGradientsAsAPassOfItsOwnWould) {
  for (const DType dtype : kFloats)
    for (const Shape& shape : {Shape{5, 24, 5, 7}, {9, 3, 4, 8}, {45, 21}})
      for (const bool relu : {false, true})
        for (const MemoryFormat& format : {kNHWC, kNCHW}) {
          SCOPED_TRACE(cat(dtype, " ", shape, relu ? " relu " : " ", format.name));
          const Job job = job_of(shape, dtype);
          const auto move = [&](const Tensor& t) {
            return contiguous(on_device(t, dtype), t.rank() == 4 ? format : kNCHW);
          };
          const auto parameter = [&](const Tensor& t) { return on_device(t, precise(dtype)); };
          Job two{move(job.x),           move(job.residual),  move(job.dy),
                  parameter(job.weight), parameter(job.bias), move(normal(shape, 6, dtype))};
          const Answer got = answer(two, relu);
          two.dy = add(two.dy, std::exchange(two.more, {}));
          const Answer want = answer(two, relu);
          const double sums = tolerance_of(want.dw.dtype());
          EXPECT_LE(difference(to(Device::cpu, want.dw), got.dw), sums);
          EXPECT_LE(difference(to(Device::cpu, want.db), got.db), sums);
          EXPECT_LE(difference(to(Device::cpu, want.dx), got.dx), tolerance_of(dtype));
          ASSERT_EQ(want.dresidual.defined(), got.dresidual.defined());
          if (relu) {
            EXPECT_EQ(difference(to(Device::cpu, want.dresidual), got.dresidual), 0);
          }
        }
}

// Empty batches and planes.
TEST_P(Norm, OfNothing) {
  for (const Shape& shape : {Shape{0, 4}, {0, 4, 3, 3}, {2, 4, 0, 3}}) {
    const Tensor x(shape, DType::f32, Device::cuda);
    const Tensor one = full({4}, 1, DType::f32, Device::cuda), dw = clone(one), db = clone(one);
    const Tensor statistics = full({2, 4}, 1, DType::f32, Device::cuda);
    const kernels::Normalization norm{statistics, one, one, 1e-5};
    const auto [y, bits] = kernels::batch_norm(x, norm, {}, NormAct::relu);
    EXPECT_EQ(y.shape(), shape);
    const auto [g, mask] = kernels::batch_norm_backward_w(y, y, x, norm, bits, false, true, dw, db);
    EXPECT_EQ(g.shape(), shape);
    EXPECT_EQ(difference(zeros({4}, DType::f64), dw), 0);
    EXPECT_EQ(difference(zeros({4}, DType::f64), db), 0);
    EXPECT_EQ(kernels::batch_norm_backward_x(g, x, norm, {}, {}, mask).shape(), shape);
  }
}

IN_ANY_ORDER(Norm);
