#include "ops/cross_entropy.h"
#include <Eigen/Core>
#include "autograd/amp.h"
#include "core/base/trace.h"
#include "core/device/parallel.h"
#include "core/tensor/copy.h"
#include "ops/base/map.h"
#include "ops/elementwise.h"
#include "ops/gather.h"
#include "ops/softmax.h"

namespace bellows {

static Tensor composed(const Tensor& logits, const Tensor& target, double smoothing) {
  const Tensor log_p = log_softmax(logits, 1);                                             // (N, C)
  const Tensor picked = gather(log_p, 1, contiguous(target).view_as({target.dim(0), 1}));  // (N, 1)
  const Tensor loss = neg(mean(picked));
  if (smoothing == 0) return loss;
  return sub(mul(loss, 1 - smoothing), mul(mean(log_p), smoothing));
}

void check_cross_entropy(const Shape& logits, const Tensor& target,
                         const CrossEntropyOptions& options) {
  const double smoothing = options.label_smoothing;
  CHECK(logits.rank() == 2 && target.shape() == Shape{logits[0]}, "cross_entropy: logits ", logits,
        " and target ", target.shape(), " should be (N, C) and (N)");
  CHECK(target.dtype() == DType::i64, "cross_entropy: the target is ", target.dtype(), ", not i64");
  CHECK(logits.numel() > 0, "cross_entropy: an empty batch ", logits);
  CHECK(smoothing >= 0 && smoothing <= 1, "cross_entropy: label_smoothing ", smoothing,
        " is not in [0, 1]");
  kernels::check_labels(target, logits[1]);
}

Tensor cross_entropy(const Tensor& logits_, const Tensor& target,
                     const CrossEntropyOptions& options, Impl impl) {
  const Tensor logits = amp::full(logits_);
  const double smoothing = options.label_smoothing;
  check_cross_entropy(logits.shape(), target, options);
  if (impl == Impl::composed) return composed(logits, target, smoothing);
  trace::count<"fuse.loss">();
  const auto [loss, lse] = kernels::cross_entropy(logits, target, smoothing);
  if (!will_record(logits)) return loss;
  return record(
      "cross_entropy", loss, {logits},
      [logits = Saved(logits), target = Saved(target), lse = Saved(lse),
       smoothing](const Tensor& dy) {
        return Grads{kernels::cross_entropy_backward(dy, logits(), target(), lse(), smoothing)};
      });
}

// ---- specs: every third class is a label

static Tensor run_with(const Inputs& in, double smoothing, Impl impl) {
  const Tensor& logits = in[0];
  std::vector<int64_t> labels(logits.dim(0));
  for (size_t n = 0; n < labels.size(); ++n) labels[n] = int64_t(n) * 3 % logits.dim(-1);
  const Tensor target = tensor_of(labels, {logits.dim(0)}, logits.device());
  return cross_entropy(logits, target, {.label_smoothing = smoothing}, impl);
}
static bool add_spec(const char* variant, double smoothing) {
  AddOp({.name = "cross_entropy",
         .math = "-mean(log_softmax(x)[label])",
         .cases = {{{1, 1}}, {{4, 10}}, {{3, 7}}, {{64, 10}}},
         .run = [=](const Inputs& in) { return run_with(in, smoothing, Impl::fused); },
         .rejects = {{{4}}, {{2, 3, 4}}},
         .variant = variant,
         .large = {{{2000, 20}}, {{40, 3000}}},
         .composed = [=](const Inputs& in) { return run_with(in, smoothing, Impl::composed); }});
  return true;
}
static const bool specs = add_spec("", 0) && add_spec("label smoothing", 0.1);

// ---- CPU

namespace {

template <class T> using Block = Eigen::Array<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Number of rows per block of work: their exponentials fit in the L1 cache.
int64_t rows_per_block(int64_t classes) { return std::max<int64_t>(4096 / classes, 1); }

}  // namespace

static void check_labels_cpu(const Tensor& target, int64_t classes) {
  const int64_t step = target.strides()[0];
  const int64_t* const target_ = target.ptr<int64_t>();
  for (int64_t n = 0; n < target.numel(); ++n) {
    const int64_t label = target_[n * step];
    if (label < 0 || label >= classes)
      fail(Exit::data, "label ", label, " of sample ", n, " of the batch is not in [0, ", classes,
           ")");
  }
}

// A row adds log(sum(exp(x - max))) - (1 - s) * (x[label] - max) - s * (mean(x) - max).
static kernels::CrossEntropy forward_cpu(const Tensor& logits, const Tensor& target,
                                         double smoothing) {
  const Tensor x = contiguous(logits), labels = contiguous(target);
  const int64_t N = x.dim(0), C = x.dim(1);
  const kernels::CrossEntropy out{empty({}, x), empty({N, 2}, x)};
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
        const T max = lse[2 * n], log_sum = std::log(shifted.row(n - b).sum());
        lse[2 * n + 1] = log_sum;
        loss += log_sum - (1 - smoothing) * (x_(n, labels.ptr<int64_t>()[n]) - max);
        if (smoothing > 0) loss -= smoothing * (x_.row(n) - max).mean();
      }
      return loss;
    });
    *out.loss.ptr<T>() = T(sum / N);
  });
  return out;
}

// dx = (softmax(x) - q) * dy / N
static Tensor backward_cpu(const Tensor& dy, const Tensor& logits, const Tensor& target,
                           const Tensor& lse, double smoothing) {
  const Tensor x = contiguous(logits), labels = contiguous(target), dx = empty(x.shape(), x);
  const int64_t N = x.dim(0), C = x.dim(1);
  visit_float(x.dtype(), [&]<class T>(T) {
    const Eigen::Map<const Block<T>> x_(x.ptr<T>(), N, C);
    Eigen::Map<Block<T>> dx_(dx.ptr<T>(), N, C);
    const T scale = *dy.ptr<T>() / T(N), even = T(smoothing / C), own = T(1 - smoothing);
    const T* const lse_ = lse.ptr<T>();
    parallel_for(N, rows_per_block(C), [&](int64_t b, int64_t e) {
      Block<T> p = x_.middleRows(b, e - b);
      for (int64_t n = b; n < e; ++n) p.row(n - b) = p.row(n - b) - lse_[2 * n] - lse_[2 * n + 1];
      exp_in_place(p.data(), p.size());
      p -= even;
      for (int64_t n = b; n < e; ++n) p(n - b, labels.ptr<int64_t>()[n]) -= own;
      dx_.middleRows(b, e - b) = p * scale;
    });
  });
  return dx;
}

static const bool cpu = kernels::check_labels.on(Device::cpu, check_labels_cpu) &&
                        kernels::cross_entropy.on(Device::cpu, forward_cpu) &&
                        kernels::cross_entropy_backward.on(Device::cpu, backward_cpu);

}  // namespace bellows
