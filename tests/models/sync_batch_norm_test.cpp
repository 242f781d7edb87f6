// Batch norm over ranks that are threads, against one rank with the joint batch.
#include "models/layers/sync_batch_norm.h"
#include "autograd/backward.h"
#include "autograd/recompute.h"
#include "core/tensor/copy.h"
#include "ops/elementwise.h"
#include "ops/shape.h"
#include "tests/difference.h"
#include "tests/dist/thread_ranks.h"
#include "tests/matchers.h"
#include "tests/optim/trained.h"
#include "tests/refusal.h"

using namespace bellows;

namespace {

// The results of one forward and backward pass of a batch norm.
struct Pass {
  Tensors rows;        // y and the gradients of x and, with relu, of the residual
  Tensors parameters;  // gradients of weight and bias
  RunningStatistics running;
};

// `residual` undefined: without relu. `group` null: batch_norm() itself.
Pass run(const Tensor& x_, const Tensor& residual_, const Tensor& dy, ProcessGroup* group) {
  const int64_t C = x_.dim(1);
  const DType dtype = x_.dtype();
  const bool relu = residual_.defined();
  const Tensor x = require_grad(clone(x_)), w = require_grad(normal({C}, dtype, 8)),
               b = require_grad(normal({C}, dtype, 9)),
               residual = relu ? require_grad(clone(residual_)) : Tensor();
  const RunningStatistics running{full({C}, 0.25, dtype), full({C}, 2, dtype),
                                  zeros({}, DType::i64)};
  const NormLayer norm{w, b, running};
  const Tensor y = group  ? sync_batch_norm(x, residual, relu, norm, *group)
                   : relu ? batch_norm_relu(x, residual, norm)
                          : batch_norm(x, norm);
  backward(sum(mul(y, dy)));
  Pass pass{{y.detach(), grad(x)}, {grad(w), grad(b)}, running};
  if (relu) pass.rows.push_back(grad(residual));
  return pass;
}

// `parts` are of ranks that share the batch of `joint`.
void expect_same(const Pass& joint, const std::vector<Pass>& parts) {
  for (size_t k = 0; k < joint.rows.size(); ++k) {
    Tensors rows;
    for (const Pass& part : parts) rows.push_back(contiguous(part.rows[k]));
    EXPECT_LT(difference(joint.rows[k], concat(rows, 0)), 1e-12) << k;
  }
  for (size_t k = 0; k < joint.parameters.size(); ++k) {
    Tensor sum = parts[0].parameters[k];
    for (size_t r = 1; r < parts.size(); ++r) sum = add(sum, parts[r].parameters[k]);
    EXPECT_LT(difference(joint.parameters[k], sum), 1e-12) << k;
  }
  for (const Pass& part : parts) {
    EXPECT_LT(difference(joint.running.mean, part.running.mean), 1e-13);
    EXPECT_LT(difference(joint.running.var, part.running.var), 1e-13);
    EXPECT_EQ(part.running.batches.ptr<int64_t>()[0], 1);
  }
}

}  // namespace

// Values around 5, where sums of squares would lose digits.
TEST(SyncBatchNorm, GivesTheJointBatchesValuesAndGradientsForAnySplit) {
  for (const Shape& shape : {Shape{8, 5}, Shape{8, 5, 3, 2}})
    for (const bool relu : {false, true})
      for (const std::vector<int64_t>& ends :
           {std::vector<int64_t>{4, 8}, {7, 8}, {1, 3, 8}, {2, 4, 6, 8}}) {
        const Tensor x = add(normal(shape, DType::f64, 1), 5), dy = normal(shape, DType::f64, 3),
                     residual = relu ? normal(shape, DType::f64, 2) : Tensor();
        std::vector<Pass> parts(ends.size());
        on_ranks(int(ends.size()), [&](ThreadGroup& group) {
          const size_t r = group.rank();
          const auto rows = [&](const Tensor& t) {
            return t.defined() ? slice(t, 0, r ? ends[r - 1] : 0, ends[r]) : t;
          };
          parts[r] = run(rows(x), rows(residual), rows(dy), &group);
        });
        expect_same(run(x, residual, dy, nullptr), parts);
      }
}

// A rank that recomputes a layer in backward takes part in its collectives again.
TEST(SyncBatchNorm, CountsABatchOnceWhenItIsRecomputed) {
  on_ranks(2, [](ThreadGroup& group) {
    const Tensor x = require_grad(normal({4, 3}, DType::f32, uint64_t(group.rank())));
    const Tensor w = require_grad(full({3}, 1)), b = require_grad(zeros({3}));
    const RunningStatistics running{zeros({3}), full({3}, 1), zeros({}, DType::i64)};
    const Tensor y = recompute(
        [&](const Tensor& in) {
          return sync_batch_norm(in, {}, false, {w, b, running}, group);
        },
        x, std::vector{w, b});
    backward(sum(square(y)));
    EXPECT_EQ(running.batches.ptr<int64_t>()[0], 1);
    EXPECT_EQ(group.started.size(), 3u) << "two times the statistics, once the gradients";
  });
}

TEST(SyncBatchNorm, TakesOneSampleARankAndRefusesWhatDoesNotFit) {
  on_ranks(2, [](ThreadGroup& group) {
    const Tensor x = normal({1, 3}, DType::f32, uint64_t(group.rank()) + 1);
    const NormLayer norm{full({3}, 1), zeros({3}), {zeros({3}), full({3}, 1)}};
    const Tensor y = sync_batch_norm(x, {}, false, norm, group);
    EXPECT_NEAR(std::abs(y.ptr<float>()[0]), 1, 1e-3) << "one of two values";
    EXPECT_THAT(refusal([&] {
                  sync_batch_norm(normal({1, 4}, DType::f32, 1), {}, false, norm, group);
                }),
                HasSubstr("sync_batch_norm: x [1,4] needs weight"));
  });
}
