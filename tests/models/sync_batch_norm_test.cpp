// Batch norm over ranks that are threads, against one rank with the joint batch.
#include "models/layers/sync_batch_norm.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "autograd/amp.h"
#include "autograd/backward.h"
#include "autograd/recompute.h"
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "ops/elementwise.h"
#include "tests/difference.h"
#include "tests/dist/thread_ranks.h"
#include "tests/models/build.h"
#include "tests/optim/trained.h"
#include "tests/refusal.h"

using namespace bellows;

namespace {

// The results of one forward and backward pass of a batch norm.
struct Pass {
  // (N, C, H, W) or (N, C); residual and dresidual: undefined without relu
  Tensor x, residual = {}, dy = {}, y = {}, dx = {}, dresidual = {};
  Tensor dw = {}, db = {}, mean = {}, var = {}, batches = {};  // (C)
};

// Rows [begin, end) of each input.
Pass rows_of(const Pass& all, int64_t begin, int64_t end) {
  const auto rows = [&](const Tensor& t) {
    if (!t.defined()) return t;
    Shape shape = t.shape();
    shape[0] = end - begin;
    return clone(t.view(shape, t.strides(), t.offset() + begin * t.strides()[0]));
  };
  return {.x = rows(all.x), .residual = rows(all.residual), .dy = rows(all.dy)};
}

// `group` null: batch_norm() itself.
void run(Pass& p, ProcessGroup* group) {
  const int64_t C = p.x.dim(1);
  const DType dtype = p.x.dtype();
  const Tensor x = require_grad(clone(p.x)),
               residual = p.residual.defined() ? require_grad(clone(p.residual)) : Tensor(),
               w = require_grad(normal({C}, dtype, 8)), b = require_grad(normal({C}, dtype, 9));
  const RunningStatistics running{full({C}, 0.25, dtype), full({C}, 2, dtype),
                                  zeros({}, DType::i64)};
  const bool relu = residual.defined();
  const NormLayer norm{w, b, running};
  const Tensor y = group  ? sync_batch_norm(x, residual, relu, norm, *group)
                   : relu ? batch_norm_relu(x, residual, norm)
                          : batch_norm(x, norm);
  backward(sum(mul(y, p.dy)));
  p.y = y.detach(), p.dx = grad(x), p.dw = grad(w), p.db = grad(b);
  if (relu) p.dresidual = grad(residual);
  p.mean = running.mean, p.var = running.var, p.batches = running.batches;
}

// Random values around 5, where sums of squares would lose digits.
Pass random_pass(const Shape& shape, bool relu) {
  const auto drawn = [&](uint64_t seed) { return normal(shape, DType::f64, seed); };
  return {.x = add(drawn(1), 5), .residual = relu ? drawn(2) : Tensor(), .dy = drawn(3)};
}

}  // namespace

TEST(SyncBatchNorm, GivesTheJointBatchesValuesAndGradientsForAnySplit) {
  const std::vector<std::vector<int64_t>> splits = {{4, 4}, {7, 1}, {1, 2, 5}, {2, 2, 2, 2}};
  for (const Shape& shape : {Shape{8, 5}, Shape{8, 5, 3, 2}})
    for (const bool relu : {false, true})
      for (const auto& split : splits) {
        Pass joint = random_pass(shape, relu);
        run(joint, nullptr);
        std::vector<Pass> parts;
        for (int64_t begin = 0; const int64_t n : split) {
          parts.push_back(rows_of(joint, begin, begin + n));
          begin += n;
        }
        on_ranks(int(split.size()), [&](ThreadGroup& group) { run(parts[group.rank()], &group); });
        Tensor dw = zeros({5}, DType::f64), db = zeros({5}, DType::f64);
        for (int64_t begin = 0, r = 0; const Pass& part : parts) {
          Pass all{.x = joint.y, .residual = relu ? joint.dresidual : Tensor(), .dy = joint.dx};
          const Pass expected = rows_of(all, begin, begin + split[r]);
          EXPECT_LT(difference(expected.x, part.y), 1e-12);
          EXPECT_LT(difference(expected.dy, part.dx), 1e-12);
          if (relu) {
            EXPECT_LT(difference(expected.residual, part.dresidual), 1e-12);
          }
          EXPECT_LT(difference(joint.mean, part.mean), 1e-13);
          EXPECT_LT(difference(joint.var, part.var), 1e-13);
          EXPECT_EQ(part.batches.ptr<int64_t>()[0], 1);
          dw = add(dw, part.dw), db = add(db, part.db);
          begin += split[r++];
        }
        EXPECT_LT(difference(joint.dw, dw), 1e-12);
        EXPECT_LT(difference(joint.db, db), 1e-12);
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
                testing::HasSubstr("sync_batch_norm: x [1,4] needs weight"));
  });
}

// ---- layers

namespace {
ModulePtr resnet(ProcessGroup* group, const std::map<std::string, std::string>& more,
                 std::vector<std::string>* fused = nullptr) {
  std::map<std::string, std::string> texts = {{"name", "resnet18"}, {"width", "4"}};
  texts.insert(more.begin(), more.end());
  return build(texts, {.sample = {3, 8, 8}, .fused = fused, .group = group});
}
}  // namespace

TEST(SyncBatchNorm, RunsInEachBatchNormOfAModelInTrainingOnly) {
  const trace::Counter& synced = trace::counter("norm.synced");
  for (const char* fusion : {"", "fuse.bn_act", "fuse.bn_add_act"})
    on_ranks(2, [&](ThreadGroup& group) {
      const ModulePtr model = *fusion ? resnet(&group, {{fusion, "true"}}) : resnet(&group, {});
      const Tensor x = normal({2, 3, 8, 8}, DType::f32, uint64_t(group.rank()));
      group.barrier("before");
      const int64_t before = synced.value();
      group.barrier("counted");
      (*model)(x);
      group.barrier("after");
      EXPECT_EQ(synced.value() - before, 2 * 20) << fusion;
      const size_t started = group.started.size();
      model->train(false);
      (*model)(x);
      EXPECT_EQ(group.started.size(), started) << "statistics are constants in evaluation";
    });
}
