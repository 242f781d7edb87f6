#include "ops/cross_entropy.h"
#include <Eigen/Core>
#include <algorithm>
#include "autograd/amp.h"
#include "core/base/trace.h"
#include "core/device/parallel.h"
#include "core/tensor/copy.h"
#include "ops/base/map.h"
#include "ops/bucketize.h"
#include "ops/elementwise.h"
#include "ops/gather.h"
#include "ops/reduce.h"
#include "ops/shape.h"
#include "ops/softmax.h"

namespace bellows {

Tensor mean_of_counted(const Tensor& x, const Tensor& counts, const Tensor& divisor) {
  if (!counts.defined() && !divisor.defined()) return mean(x);
  const Tensor rows = mean(x, {.axes = {1}, .keepdim = true});
  const Tensor total = sum(counts.defined() ? mul(rows, counts) : rows);
  if (divisor.defined()) return div(total, cast(divisor, x.dtype()));
  const Tensor n = sum(counts);
  return div(total, maximum(n, full({}, 1, n)));
}

// Returns true if every target counts. The first axis of `target` is the samples. Throws (exit 3)
// on a label that is neither kLeftOut nor in [0, C). On a device, where reading the target would be
// a wait, returns false: a wrong label makes the loss NaN instead.
static bool check_labels(const Tensor& target, int64_t classes) {
  if (target.device() != Device::cpu) return false;
  const Tensor labels = contiguous(target);
  const int64_t positions = target.numel() / std::max<int64_t>(target.dim(0), 1);
  bool all_count = true;
  for (int64_t n = 0; n < labels.numel(); ++n) {
    const int64_t label = labels.ptr<int64_t>()[n];
    if (label == kLeftOut)
      all_count = false;
    else if (label < 0 || label >= classes)
      fail(Exit::data, "label ", label, " of sample ", n / positions, " of the batch",
           positions > 1 ? cat(" at position ", n % positions) : "", " is not in [0, ", classes,
           ")");
  }
  return all_count;
}

// Computes in f64, which holds every possible label: |label + 1| is 0 for kLeftOut, else 1 or more.
ClassTargets class_targets(const Tensor& target, int64_t classes, DType dtype) {
  constexpr double kAboveAllClasses = 0x1p53;
  const bool all_count = check_labels(target, classes);
  const Tensor index = contiguous(target).view_as({target.numel(), 1});
  if (all_count) return {index, {}};
  const Tensor exact = cast(index, DType::f64);
  const Tensor next = add(minimum(exact, full({}, kAboveAllClasses, exact)), 1);
  const Tensor counts = kernels::bucketize(abs(next), full({1}, 0.5, exact));
  return {cast(sub(next, counts), DType::i64), cast(counts, dtype)};
}

static Tensor composed(const Tensor& logits, const Tensor& target, double smoothing,
                       const Tensor& divisor) {
  const auto [index, counts] = class_targets(target, logits.dim(1), logits.dtype());
  const Tensor log_p = log_softmax(logits);       // (N, C)
  const Tensor picked = gather(log_p, 1, index);  // (N, 1)
  const Tensor loss = neg(mean_of_counted(picked, counts, divisor));
  if (smoothing == 0) return loss;
  return sub(mul(loss, 1 - smoothing), mul(mean_of_counted(log_p, counts, divisor), smoothing));
}

static void check(const Tensor& logits, const Tensor& target, double smoothing,
                  const Tensor& divisor) {
  CHECK(logits.rank() >= 2 && target.shape() == positions_of(logits.shape()),
        "cross_entropy: logits ", logits.shape(), " and target ", target.shape(),
        " should be (..., C) and (...)");
  CHECK(target.dtype() == DType::i64, "cross_entropy: the target is ", target.dtype(), ", not i64");
  CHECK(logits.numel() > 0, "cross_entropy: an empty batch ", logits.shape());
  CHECK(smoothing >= 0 && smoothing <= 1, "cross_entropy: label_smoothing ", smoothing,
        " is not in [0, 1]");
  CHECK(!divisor.defined() || (divisor.dtype() == DType::f32 && divisor.rank() == 0),
        "cross_entropy: the divisor is ", divisor.dtype(), " ", divisor.shape(),
        ", not an f32 scalar");
}

Tensor cross_entropy(const Tensor& logits_, const Tensor& target_,
                     const CrossEntropyOptions& options, Impl impl, const Tensor& divisor) {
  const double smoothing = options.label_smoothing;
  check(logits_, target_, smoothing, divisor);
  const int64_t C = logits_.dim(-1);
  Tensor logits = amp::full(logits_), target = target_;
  if (logits.rank() > 2) logits = reshape(logits, {-1, C}), target = reshape(target, {-1});
  if (impl == Impl::composed) return composed(logits, target_, smoothing, divisor);
  check_labels(target_, C);
  trace::count<"fuse.loss">();
  const auto [loss, lse, over] = kernels::cross_entropy(logits, target, divisor, smoothing);
  if (!will_record(logits)) return loss;
  return record("cross_entropy", loss, {logits},
                [logits = Saved(logits), target = Saved(target), lse = Saved(lse),
                 over = Saved(over), smoothing](const Tensor& dy) {
                  return Grads{kernels::cross_entropy_backward(dy, logits(), target(), lse(),
                                                               over(), smoothing)};
                });
}

// ---- specs: every third class is a label; with `mark`, every fourth target is left out

static Tensor run_with(const Inputs& in, double smoothing, bool mark, double divisor, Impl impl) {
  const Tensor& logits = in[0];
  std::vector<int64_t> labels(logits.dim(0));
  for (size_t n = 0; n < labels.size(); ++n)
    labels[n] = mark && n % 4 == 3 ? kLeftOut : int64_t(n) * 3 % logits.dim(-1);
  const Device device = logits.device();
  return cross_entropy(logits, tensor_of(labels, {logits.dim(0)}, device),
                       {.label_smoothing = smoothing}, impl,
                       divisor > 0 ? full({}, divisor, DType::f32, device) : Tensor());
}
static bool add_spec(const char* variant, double smoothing, bool mark = false, double divisor = 0) {
  const auto run = [=](const Inputs& in, Impl impl) {
    return run_with(in, smoothing, mark, divisor, impl);
  };
  AddOp({.name = "cross_entropy",
         .math = "-mean(log_softmax(x)[label])",
         .cases = {{{1, 1}}, {{4, 10}}, {{3, 7}}, {{64, 10}}},
         .run = [=](const Inputs& in) { return run(in, Impl::fused); },
         .rejects = {{{4}}, {{2, 3, 4}}},
         .variant = variant,
         .large = {{{2000, 20}}, {{40, 3000}}},
         .composed = [=](const Inputs& in) { return run(in, Impl::composed); }});
  return true;
}
static const bool specs = add_spec("", 0) && add_spec("label smoothing", 0.1) &&
                          add_spec("left out", 0, true) &&
                          add_spec("left out, divisor", 0.1, true, 7);

// ---- CPU

namespace {

template <class T> using Block = Eigen::Array<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Returns the number of rows per block of work: their exponentials fit in the L1 cache.
int64_t rows_per_block(int64_t classes) { return std::max<int64_t>(4096 / classes, 1); }

}  // namespace

// Returns the divisor of the caller, or the number of rows that count.
static Tensor divisor_cpu(const Tensor& given, const Tensor& labels) {
  if (given.defined()) return cast(given, DType::f64);
  const int64_t left_out = std::ranges::count(labels.data<int64_t>(), kLeftOut);
  return full({}, double(std::max<int64_t>(labels.numel() - left_out, 1)), DType::f64);
}

// A row adds log(sum(exp(x - max))) - (1 - s) * (x[label] - max) - s * (mean(x) - max).
static kernels::CrossEntropy forward_cpu(const Tensor& logits, const Tensor& target,
                                         const Tensor& divisor, double smoothing) {
  const Tensor x = contiguous(logits), labels = contiguous(target);
  const int64_t N = x.dim(0), C = x.dim(1);
  const kernels::CrossEntropy out{empty({}, x), empty({N, 2}, x), divisor_cpu(divisor, labels)};
  visit_float(x.dtype(), [&]<class T>(T) {
    const Eigen::Map<const Block<T>> x_(x.ptr<T>(), N, C);
    T* const lse = out.lse.ptr<T>();
    const double sum = parallel_sum(N, rows_per_block(C), [&](int64_t b, int64_t e) {
      Block<T> shifted = x_.middleRows(b, e - b);
      for (int64_t n = b; n < e; ++n) {
        lse[2 * n] = shifted.row(n - b).maxCoeff();
        shifted.row(n - b) -= lse[2 * n];
      }
      exp_in_place(shifted.data(), shifted.size());
      double loss = 0;
      for (int64_t n = b; n < e; ++n) {
        const int64_t label = labels.ptr<int64_t>()[n];
        const T max = lse[2 * n], log_sum = std::log(shifted.row(n - b).sum());
        lse[2 * n + 1] = log_sum;
        if (label == kLeftOut) continue;
        loss += log_sum - (1 - smoothing) * (x_(n, label) - max);
        if (smoothing > 0) loss -= smoothing * (x_.row(n) - max).mean();
      }
      return loss;
    });
    *out.loss.ptr<T>() = T(sum / *out.divisor.ptr<double>());
  });
  return out;
}

// dx = (softmax(x) - q) * dy / divisor, or 0 in rows that are left out
static Tensor backward_cpu(const Tensor& dy, const Tensor& logits, const Tensor& target,
                           const Tensor& lse, const Tensor& divisor, double smoothing) {
  const Tensor x = contiguous(logits), labels = contiguous(target), dx = empty(x.shape(), x);
  const int64_t N = x.dim(0), C = x.dim(1);
  visit_float(x.dtype(), [&]<class T>(T) {
    const Eigen::Map<const Block<T>> x_(x.ptr<T>(), N, C);
    Eigen::Map<Block<T>> dx_(dx.ptr<T>(), N, C);
    const T scale = *dy.ptr<T>() / T(*divisor.ptr<double>()), even = T(smoothing / C),
            own = T(1 - smoothing);
    const T* const lse_ = lse.ptr<T>();
    parallel_for(N, rows_per_block(C), [&](int64_t b, int64_t e) {
      Block<T> p = x_.middleRows(b, e - b);
      for (int64_t n = b; n < e; ++n) p.row(n - b) = p.row(n - b) - lse_[2 * n] - lse_[2 * n + 1];
      exp_in_place(p.data(), p.size());
      p -= even;
      for (int64_t n = b; n < e; ++n) {
        const int64_t label = labels.ptr<int64_t>()[n];
        if (label == kLeftOut)
          p.row(n - b).setZero();
        else
          p(n - b, label) -= own;
      }
      dx_.middleRows(b, e - b) = p * scale;
    });
  });
  return dx;
}

static const bool cpu = kernels::cross_entropy.on(Device::cpu, forward_cpu) &&
                        kernels::cross_entropy_backward.on(Device::cpu, backward_cpu);

}  // namespace bellows
