// Batch normalization on the device: every division of rows into pieces, cancellation, and the
// number of launches.
#include "ops/norm/batch_norm.h"
#include "core/base/trace.h"
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
  Slot slot;
  const auto [dx, dresidual] =
      kernels::batch_norm_backward_in_steps(dy, more, x, norm, bits, relu, a.dw, a.db, slot);
  a.dx = dx, a.dresidual = dresidual;
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

TEST_P(Norm, RunningStatisticsOfBothPrecisions) {
  for (const DType batch : {DType::f32, DType::f64})
    for (const DType kept : {DType::f32, DType::f64}) {
      const auto run = [&](Device device) {
        const Tensor mean = full({5}, 1, kept, device), var = full({5}, 2, kept, device);
        const Tensor batches = full({}, 7, DType::i64, device);
        const Tensor statistics = to(device, cast(normal({2, 5}, 1), batch));
        kernels::update_running(statistics, {{mean, var, batches}, 0.1, 1.25});
        kernels::update_running(statistics, {{mean, var}, 0.1, 1.25});
        kernels::update_running(statistics, {});
        return std::vector{mean, var, batches};
      };
      const auto want = run(Device::cpu), got = run(Device::cuda);
      for (int i = 0; i < 3; ++i) EXPECT_LE(difference(want[i], got[i]), i < 2 ? 1e-7 : 0) << i;
    }
}

// Launches in a step: reductions take two, everything else one.
TEST_P(Norm, IsFewLaunches) {
  const trace::Counter& launches = trace::counter("cuda.launches");
  for (const MemoryFormat& format : {kNCHW, kNHWC})
    for (const Shape& shape : {Shape{2, 3, 4, 5}, {50, 4, 16, 16}}) {
      const Tensor x = contiguous(on_device(normal(shape, 1), DType::f32), format);
      const Tensor one = full({shape[1]}, 1, DType::f32, Device::cuda), dw = clone(one),
                   db = clone(one), batches = zeros({}, DType::i64, Device::cuda);
      int64_t before = launches.value();
      const auto queued = [&] {
        return launches.value() - std::exchange(before, launches.value());
      };
      const Tensor statistics = kernels::channel_statistics(x, {{dw, db, batches}, 0.1, 1});
      EXPECT_EQ(queued(), 2);
      const kernels::Normalization norm{statistics, one, one, 1e-5};
      const auto [y, bits] = kernels::batch_norm(x, norm, x, NormAct::relu);
      EXPECT_EQ(queued(), 1);
      kernels::batch_norm_backward_w(y, y, x, norm, bits, false, true, dw, db);
      EXPECT_EQ(queued(), 2);
      kernels::batch_norm_backward_x(y, x, norm, dw, db, bits);
      EXPECT_EQ(queued(), 1);
    }
}

// A library's pass runs only if requested and if it supports x. Its bits go to its own backward.
TEST_P(Norm, GoesToALibraryAsAWhole) {
  const trace::Counter& calls = trace::counter("kernel.vendor_calls");
  const auto calls_with = [&](const KernelOptions& options, DType dtype, int64_t channels,
                              const MemoryFormat& format) {
    const Kernels use(options);
    const int64_t before = calls.value();
    Slot slot;
    const Tensor x = contiguous(on_device(normal({2, channels, 3, 5}, 1), dtype), format);
    const Tensor one = full({channels}, 1, precise(dtype), Device::cuda), dw = clone(one),
                 db = clone(one);
    const auto pass = kernels::batch_norm_training(x, one, one, x, true, 1e-5, {}, slot);
    pass.backward(x, x, x, {pass.statistics, one, one, 1e-5}, pass.bits, true, dw, db, slot);
    return calls.value() - before;
  };
  const KernelOptions asked{.vendor = true, .algorithm = "cudnn"};
  EXPECT_EQ(calls_with(asked, DType::f16, 16, kNHWC), 2);
  EXPECT_EQ(calls_with(asked, DType::bf16, 8, kNHWC), 2);
  EXPECT_EQ(calls_with(asked, DType::f32, 4, kNHWC), 2);
  EXPECT_EQ(calls_with(asked, DType::f32, 4, kNCHW), 0);
  EXPECT_EQ(calls_with(asked, DType::f16, 12, kNHWC), 0);
  EXPECT_EQ(calls_with(asked, DType::f64, 16, kNHWC), 0);
  EXPECT_EQ(calls_with({.vendor = true}, DType::f16, 16, kNHWC), 0) << "ours is the usual one";
}

// ---- on chip: one launch forward, one backward

struct Pass {
  kernels::BatchNormPass forward;
  Tensor dw, db, dx, dresidual;
  int64_t launches[2] = {};  // forward, backward
};
Pass pass_of(const Job& job, bool relu, const char* algorithm = nullptr) {
  const trace::Counter& launches = trace::counter("cuda.launches");
  const Kernels use({.algorithm = algorithm});
  const auto& [x, residual, dy, weight, bias, more] = job;
  Slot slot;
  Pass pass;
  pass.dw = empty_like(weight), pass.db = empty_like(bias);
  const int64_t before = launches.value();
  pass.forward = kernels::batch_norm_training(x, weight, bias, relu ? residual : Tensor(), relu,
                                              1e-5, {}, slot);
  const int64_t between = launches.value();
  const auto [dx, dresidual] =
      pass.forward.backward(dy, more, x, {pass.forward.statistics, weight, bias, 1e-5},
                            pass.forward.bits, relu, pass.dw, pass.db, slot);
  pass.dx = dx, pass.dresidual = dresidual;
  pass.launches[0] = between - before, pass.launches[1] = launches.value() - between;
  return pass;
}
Answer answer_of(const Pass& pass) {
  return {pass.forward.statistics, pass.forward.y, pass.dw, pass.db, pass.dx, pass.dresidual};
}
Answer on_cpu(const Answer& a) {
  const auto move = [](const Tensor& t) { return t.defined() ? to(Device::cpu, t) : t; };
  const Answer moved{move(a.statistics), move(a.y),  move(a.dw),
                     move(a.db),         move(a.dx), move(a.dresidual)};
  synchronize(current_stream(Device::cuda));
  return moved;
}
Job on_device(const Job& job, DType dtype, const MemoryFormat& format = kNHWC) {
  const auto move = [&](const Tensor& t) {
    return contiguous(cuda_host::on_device(t, dtype), t.rank() == 4 ? format : kNCHW);
  };
  return {move(job.x),
          move(job.residual),
          move(job.dy),
          cuda_host::on_device(job.weight, precise(dtype)),
          cuda_host::on_device(job.bias, precise(dtype)),
          job.more.defined() ? move(job.more) : job.more};
}

// Compares with the CPU and with the streaming kernels, which read x twice. Mask bits are equal.
void expect_on_chip(const Shape& shape, DType dtype, bool relu) {
  SCOPED_TRACE(cat(shape, " ", dtype, relu ? " relu" : ""));
  const Job job = job_of(shape, dtype), job_ = on_device(job, dtype);
  const Pass got = pass_of(job_, relu);
  EXPECT_EQ(got.launches[0], 1);
  EXPECT_EQ(got.launches[1], 1);
  expect_close(answer(job, relu), answer_of(got), dtype);
  const Answer streamed = answer(job_, relu, got.forward.statistics);
  expect_close(on_cpu(streamed), answer_of(got), dtype);
  if (!relu) return;
  const auto [y, bits] = kernels::batch_norm(
      job_.x, {got.forward.statistics, job_.weight, job_.bias, 1e-5}, job_.residual, NormAct::relu);
  EXPECT_EQ(difference(to(Device::cpu, bits), got.forward.bits), 0);
}

// The kernels that compute the statistics update the running ones as a launch of its own would.
TEST_P(Norm, UpdatesRunningStatisticsOnTheWay) {
  for (const char* algorithm : {"plain", "streaming"})
    for (const DType dtype : {DType::bf16, DType::f64})
      for (const DType kept : {DType::f32, DType::f64}) {
        SCOPED_TRACE(cat(algorithm, " ", dtype, " ", kept));
        const Kernels use({.algorithm = algorithm});
        const auto fresh = [&] {
          return RunningUpdate{
              {full({24}, 1, kept, Device::cuda), full({24}, 2, kept, Device::cuda),
               full({}, 7, DType::i64, Device::cuda)},
              0.1,
              1.25};
        };
        const Job job = on_device(job_of({9, 24, 5, 7}, dtype), dtype);
        const RunningUpdate got = fresh(), want = fresh();
        Slot slot;
        const auto pass =
            kernels::batch_norm_training(job.x, job.weight, job.bias, {}, false, 1e-5, got, slot);
        kernels::update_running(pass.statistics, want);
        EXPECT_LE(difference(to(Device::cpu, want.mean), got.mean), 1e-15);
        EXPECT_LE(difference(to(Device::cpu, want.var), got.var), 1e-15);
        EXPECT_EQ(difference(to(Device::cpu, want.batches), got.batches), 0);
      }
}

// Rows that do not fill a block or its warps; channels that do not fill a slice.
TEST_P(Norm, OnChipOfEveryDtype) {
  for (const DType dtype : kFloats)
    for (const bool relu : {false, true}) {
      expect_on_chip({9, 40, 5, 7}, dtype, relu);
      expect_on_chip({45, 21}, dtype, relu);
      expect_on_chip({5, 3}, dtype, relu);
    }
}

// For tests with many blocks: one shuffled schedule only.
struct ShuffledNorm : testing::Test {
  void SetUp() override { reset(schedules(1).back()); }
  void TearDown() override {
    empty_cache(Device::cuda);
    EXPECT_EQ(complaint(), "");
  }
};

// Slices are 64, 32 or 16 bytes wide: the widest that still gives 132 slices.
TEST_F(ShuffledNorm, OfEveryWidthOnChip) {
  expect_on_chip({37, 132 * 32}, DType::bf16, true);
  expect_on_chip({37, 132 * 32 + 1}, DType::bf16, true);
  expect_on_chip({37, 132 * 8 + 1}, DType::f32, true);
  expect_on_chip({37, 132 * 8}, DType::f64, true);
}

TEST_F(ShuffledNorm, OfEverySizeThatFitsIsOnChip) {
  using Launches = std::pair<int64_t, int64_t>;
  const auto launches = [](const Shape& shape, DType dtype, const MemoryFormat& format = kNHWC,
                           const char* algorithm = nullptr) {
    const Tensor x =
        contiguous(full(shape, 1, dtype, Device::cuda), shape.rank() == 4 ? format : kNCHW);
    const Tensor one = full({shape[1]}, 1, precise(dtype), Device::cuda);
    const Pass pass = pass_of({x, x, x, one, one}, true, algorithm);
    return Launches{pass.launches[0], pass.launches[1]};
  };
  const Launches once{1, 1}, twice{3, 3};
  EXPECT_EQ(launches({2048, 1}, DType::f32), once);
  EXPECT_EQ(launches({2049, 1}, DType::f32), twice);
  EXPECT_EQ(launches({2049, 132 * 2}, DType::f64), once);
  EXPECT_EQ(launches({8000, 132 * 2}, DType::f64), Launches(1, 3)) << "backward keeps two";
  EXPECT_EQ(launches({15000, 132 * 2}, DType::f64), twice);
  EXPECT_EQ(launches({4, 16, 3, 3}, DType::bf16), once);
  EXPECT_EQ(launches({4, 16, 3, 3}, DType::bf16, kNCHW), twice);
  EXPECT_EQ(launches({4, 16, 1, 1}, DType::bf16, kNCHW), once);
  EXPECT_EQ(launches({4, 16, 3, 3}, DType::bf16, kNHWC, "streaming"), twice);
}

// Forward keeps x on chip. Backward would have to keep two tensors, so it streams.
TEST_F(ShuffledNorm, OfEverySizeBackwardMayStream) {
  const Job job = on_device(job_of({7300, 264}, DType::f64), DType::f64);
  const Pass got = pass_of(job, true), want = pass_of(job, true, "streaming");
  EXPECT_EQ(got.launches[0], 1);
  EXPECT_EQ(got.launches[1], 3);
  expect_close(on_cpu(answer_of(want)), answer_of(got), DType::f64);
}

// LargeNumbersDoNotCancel for the kernels that keep x on chip.
TEST_P(Norm, OnChipLargeNumbersDoNotCancel) {
  for (const bool blank : {false, true}) {
    SCOPED_TRACE(blank ? "blank" : "");
    const Shape shape{25, 12, 9, 9};
    const Tensor x = normal(shape, 1);
    for (int64_t i = 0; i < x.numel(); ++i)
      x.data<double>()[i] = blank && i < x.numel() / 25 ? 0 : x.data<double>()[i] + 1e4;
    const Job job = on_device({x, x, x, normal({12}, 4), normal({12}, 5)}, DType::f32);
    const Pass pass = pass_of(job, false);
    EXPECT_EQ(pass.launches[0], 1);
    const Tensor want = kernels::channel_statistics(cast(cast(x, DType::f32), DType::f64), {});
    const Tensor got = to(Device::cpu, pass.forward.statistics);
    synchronize(current_stream(Device::cuda));
    for (int64_t c = 0; c < 24; ++c)
      EXPECT_NEAR(got.data<float>()[c] / want.data<double>()[c], 1, c < 12 ? 2e-7 : 5e-5) << c;
  }
}

// ---- two gradients, which backward adds

// As from their sum, rounded to their dtype: on the CPU, and on the device in each memory format,
// on chip and streaming. The gradient of the residual has the same bits. Sums over a channel may
// differ in the last place, because the compiler fuses other multiply-adds.
TEST_F(ShuffledNorm, AddsTwoGradientsAsAPassOfItsOwnWould) {
  const auto expect_same = [](const Job& job, bool relu, const char* algorithm) {
    const Pass got = pass_of(job, relu, algorithm);
    Job summed = job;
    summed.dy = add(job.dy, std::exchange(summed.more, {}));
    const Answer a = answer_of(pass_of(summed, relu, algorithm)), b = answer_of(got);
    const double sums = tolerance_of(a.dw.dtype());
    EXPECT_LE(difference(to(Device::cpu, a.dw), b.dw), sums);
    EXPECT_LE(difference(to(Device::cpu, a.db), b.db), sums);
    EXPECT_LE(difference(to(Device::cpu, a.dx), b.dx), tolerance_of(a.dx.dtype()));
    EXPECT_EQ(a.dresidual.defined(), b.dresidual.defined());
    if (relu) {
      EXPECT_EQ(difference(to(Device::cpu, a.dresidual), b.dresidual), 0);
    }
  };
  for (const DType dtype : kFloats)
    for (const Shape& shape : {Shape{5, 24, 5, 7}, {9, 3, 4, 8}, {45, 21}})
      for (const bool relu : {false, true}) {
        SCOPED_TRACE(cat(dtype, " ", shape, relu ? " relu" : ""));
        Job job = job_of(shape, dtype);
        job.more = normal(shape, 6, dtype);
        for (const char* algorithm : {"plain", "streaming"})
          for (const MemoryFormat& format : {kNHWC, kNCHW})
            expect_same(on_device(job, dtype, format), relu, algorithm);
        const auto here = [&](const Tensor& t) { return cast(t, dtype); };
        const auto parameter = [&](const Tensor& t) { return cast(t, precise(dtype)); };
        expect_same({here(job.x), here(job.residual), here(job.dy), parameter(job.weight),
                     parameter(job.bias), here(job.more)},
                    relu, nullptr);
      }
}

// ---- the sum of two norms

TEST_P(Norm, OfTwoInputsIsTheSumOfTheirNorms) {
  for (const DType dtype : kFloats)
    for (const Shape& shape : {Shape{5, 24, 5, 7}, {9, 3, 4, 8}, {45, 21}})
      for (const MemoryFormat& format : {kNHWC, kNCHW}) {
        SCOPED_TRACE(cat(dtype, " ", shape, " ", format.name));
        const Job job = on_device(job_of(shape, dtype), dtype, format);
        const Tensor &a = job.x, &b = job.residual, &w = job.weight, &bias = job.bias;
        const kernels::Normalization of_a{kernels::channel_statistics(a, {}), w, bias, 1e-5},
            of_b{kernels::channel_statistics(b, {}), bias, w, 1e-3};
        const auto got = kernels::batch_norms(a, of_a, b, of_b);
        const Tensor residual = kernels::batch_norm(b, of_b, {}, NormAct::none).y;
        const auto want = kernels::batch_norm(a, of_a, residual, NormAct::relu);
        EXPECT_EQ(difference(to(Device::cpu, want.y), got.y), 0);
        EXPECT_EQ(difference(to(Device::cpu, want.bits), got.bits), 0);
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
