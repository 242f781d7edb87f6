#include "models/layers/sync_batch_norm.h"
#include "autograd/backward.h"
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

namespace bellows {

namespace {

struct Joint {
  Tensor statistics;  // (2, C): means and biased variances of all ranks' elements
  Tensor unbiased;    // (2, C): means and unbiased variances
  Tensor share;       // (1): this rank's part of the elements; f64
};

// Columns [begin, begin + n) of a row-major matrix.
Tensor columns(const Tensor& t, int64_t begin, int64_t n) {
  return t.view({t.dim(0), n}, {t.dim(1), 1}, begin);
}
Tensor sum_of_ranks(const Tensor& parts) { return sum(parts, {.axes = {0}, .keepdim = true}); }

// Merges the statistics by the rule of Chan, Golub and LeVeque for several parts: var = sum of
// share_r (var_r + (mean_r - mean)^2). The number of elements is in a tensor as well, so the host
// never waits.
Joint merge(const Tensor& mine, int64_t n, ProcessGroup& group) {
  const int64_t C = mine.dim(1), W = group.world(), width = 2 * C + 1;
  const Tensor message({1, width}, DType::f64, mine.device()),
      all({W, width}, DType::f64, mine.device());
  copy_into(message.view({2, C}, {C, 1}, 0), mine);
  fill(message.view({1}, {1}, 2 * C), double(n));
  group.all_gather(message, all, "statistics of a batch norm").wait();
  const Tensor mean = columns(all, 0, C), var = columns(all, C, C), count = columns(all, 2 * C, 1);
  const Tensor total = sum_of_ranks(count), shares = div(count, total);
  const Tensor joint_mean = sum_of_ranks(mul(shares, mean)),
               joint_var = sum_of_ranks(mul(shares, add(var, square(sub(mean, joint_mean)))));
  Joint joint{.statistics = Tensor(mine.shape(), mine.dtype(), mine.device()),
              .unbiased = Tensor(mine.shape(), mine.dtype(), mine.device()),
              .share = shares.view({1}, {1}, group.rank())};
  for (const Tensor& to : {joint.statistics, joint.unbiased})
    copy_into(to.view({1, C}, {C, 1}, 0), joint_mean);
  copy_into(joint.statistics.view({1, C}, {C, 1}, C), joint_var);
  copy_into(joint.unbiased.view({1, C}, {C, 1}, C), mul(joint_var, div(total, add(total, -1))));
  return joint;
}

// Returns the sums of dw and db over the ranks, times `share`, because batch_norm_backward_x
// divides by the number of elements on this rank instead of all ranks.
std::pair<Tensor, Tensor> sums_of_ranks(const Tensor& dw, const Tensor& db, const Tensor& share,
                                        ProcessGroup& group) {
  const int64_t C = dw.numel();
  const Tensor all({2 * C}, DType::f64, dw.device());
  const Tensor dw_of_all = all.view({C}, {1}, 0), db_of_all = all.view({C}, {1}, C);
  copy_into(dw_of_all, dw);
  copy_into(db_of_all, db);
  group.all_reduce(all, Reduction::sum, "gradients of a batch norm").wait();
  return {cast(mul(dw_of_all, share), dw.dtype()), cast(mul(db_of_all, share), db.dtype())};
}

}  // namespace

Tensor sync_batch_norm(const Tensor& x, const Tensor& residual, bool relu, const NormLayer& norm,
                       ProcessGroup& group) {
  NormLayer one_element = norm;  // true for the group, because other ranks have more
  one_element.options.training = false;
  check_norm("sync_batch_norm", x.shape(), one_element);
  count_layout(x);
  trace::count<"norm.synced">();
  if (relu)
    residual.defined() ? trace::count<"fuse.norm_add_act">() : trace::count<"fuse.norm_act">();
  Joint joint;
  {
    const NoGrad constants;
    joint = merge(kernels::channel_statistics(x, {}), x.numel() / x.dim(1), group);
  }
  const auto [y, bits] =
      kernels::batch_norm(x, normalization(joint.statistics, norm), residual, relu);
  kernels::update_running(joint.unbiased, update_of(norm, 1));
  if (!will_record(x, residual, norm.weight, norm.bias)) return y;
  return record(
      "sync_batch_norm", y, {x, residual, norm.weight, norm.bias},
      [saved = SavedNorm(x, joint.statistics, norm), share = Saved(joint.share), bits = Saved(bits),
       needs_residual = needs_grad(residual), &group](const Tensor& dy, const Tensor& more) {
        const NormGrads grads(saved);
        const kernels::Normalization n = saved.norm();
        const auto [g, mask] = kernels::batch_norm_backward_w(dy, more, saved.x(), n, bits(),
                                                              needs_residual, grads.dw, grads.db);
        const auto [dw, db] = sums_of_ranks(grads.dw, grads.db, share(), group);
        const Tensor dx = kernels::batch_norm_backward_x(g, saved.x(), n, dw, db, mask);
        return Grads{dx, needs_residual ? g : Tensor(), grads.of_weight(saved),
                     grads.of_bias(saved)};
      });
}

}  // namespace bellows
