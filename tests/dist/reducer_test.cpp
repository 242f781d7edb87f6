// The reducer in a world of one, and as rank 0 of two ranks with equal tensors.
#include "dist/reducer.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "autograd/backward.h"
#include "core/base/trace.h"
#include "core/tensor/foreach.h"

using namespace bellows;

namespace {

// A collective that multiplies its tensor in wait().
class Scaling : public Work {
 public:
  Scaling(const Tensor& t, double factor) : t_(t), factor_(factor) {}
  void wait() override { scale_each({&t_, 1}, factor_); }

 private:
  Tensor t_;
  double factor_;
};

// Rank 0 of two ranks with equal tensors: a sum over ranks is twice the local value.
class Twins : public ProcessGroup {
 public:
  int rank() const override { return 0; }
  int world() const override { return 2; }
  WorkPtr all_reduce(const Tensor& t, Reduction reduction, const std::string&) override {
    sent.push_back(t.bytes());
    ++reduces;
    return std::make_unique<Scaling>(t, reduction == Reduction::mean ? 1 : 2);
  }
  WorkPtr broadcast(const Tensor& t, int root, const std::string&) override {
    EXPECT_EQ(root, 0);
    broadcasts.push_back(t);
    return std::make_unique<Scaling>(t, 1);
  }
  WorkPtr all_gather(const Tensor&, const Tensor&, const std::string&) override { return nullptr; }
  WorkPtr reduce_scatter(const Tensor&, const Tensor&, Reduction, const std::string&) override {
    return nullptr;
  }
  void barrier(const std::string&) override {}
  void abort(const std::string&) noexcept override {}

  Tensors broadcasts;
  std::vector<const std::byte*> sent;
  int reduces = 0;
};

// loss = sum of 3 w
Tensor loss_of(const Tensor& w) {
  const double value = 3 * (w.data<float>()[0] + w.data<float>()[1]);
  return record("triple", full({}, value), {w},
                [](const Tensor& dy) { return Grads{full({2}, 3 * dy.item())}; });
}
Tensor leaf() { return require_grad(full({2}, 1)); }

}  // namespace

TEST(Reducer, CostsNothingInAWorldOfOne) {
  const auto group = DistOptions().backend.make(GroupContext());
  EXPECT_EQ(group->world(), 1);
  EXPECT_EQ(group->rank(), 0);
  const Tensor w = leaf();
  const int64_t before = trace::counter("dist.all_reduces").value();
  Reducer reducer(*group, {{"w", w}});
  EXPECT_FALSE(leaf_of(w).hook);
  {
    const auto quiet = reducer.no_sync(false);
    backward(loss_of(w));
  }
  reducer.wait();
  EXPECT_EQ(grad(w).data<float>()[1], 3);
  EXPECT_EQ(trace::counter("dist.all_reduces").value(), before);
}

TEST(Reducer, BeginsWithTheParametersOfRankZero) {
  Twins group;
  const Tensor w = leaf();
  const Reducer reducer(group, {{"w", w}});
  ASSERT_EQ(group.broadcasts.size(), 1u);
  EXPECT_EQ(group.broadcasts[0].storage(), w.storage());
}

TEST(Reducer, GivesTheMeanOverRanks) {
  Twins group;
  const Tensor w = leaf();
  Reducer reducer(group, {{"w", w}});
  backward(loss_of(w));
  EXPECT_EQ(group.reduces, 1);  // sent during backward
  reducer.wait();
  EXPECT_EQ(grad(w).data<float>()[0], 3);
}

TEST(Reducer, SendsNothingWhileHeldAndTheSumAfterwards) {
  Twins group;
  const Tensor w = leaf();
  Reducer reducer(group, {{"w", w}});
  for (const bool last : {false, false, true}) {
    const auto quiet = reducer.no_sync(!last);
    backward(loss_of(w));
    EXPECT_EQ(group.reduces, last ? 1 : 0);
  }
  reducer.wait();
  EXPECT_EQ(grad(w).data<float>()[0], 9);
}

TEST(Reducer, LeavesNoHookBehind) {
  Twins group;
  const Tensor w = leaf();
  { const Reducer reducer(group, {{"w", w}}); }
  backward(loss_of(w));
  EXPECT_EQ(group.reduces, 0);
}

// A micro-batch may not reach every parameter. Gradients that backward did not send are sent in the
// order of the parameters.
TEST(Reducer, SendsWhatOnlyHeldPassesGaveAGradient) {
  Twins group;
  const Tensor leaves[] = {leaf(), leaf(), leaf()};
  const auto& [w, v, u] = leaves;
  Reducer reducer(group, {{"w", w}, {"v", v}, {"u", u}});
  for (int update = 0; update < 2; ++update) {
    group.sent.clear();
    {
      const auto quiet = reducer.no_sync(true);
      for (const Tensor& t : {v, w, u}) backward(loss_of(t));
    }
    backward(loss_of(u));
    EXPECT_THAT(group.sent, testing::ElementsAre(grad(u).bytes()));
    reducer.wait();
    EXPECT_THAT(group.sent,
                testing::ElementsAre(grad(u).bytes(), grad(w).bytes(), grad(v).bytes()));
    EXPECT_EQ(grad(u).data<float>()[0], 6);
    EXPECT_EQ(grad(w).data<float>()[0], 3);
    zero_grad(leaves, true);
  }
}

TEST(Reducer, ForgetsWhatWasDroppedInstead) {
  Twins group;
  const Tensor w = leaf();
  Reducer reducer(group, {{"w", w}});
  {
    const auto quiet = reducer.no_sync(true);
    backward(loss_of(w));
  }
  zero_grad({&w, 1}, true);
  reducer.wait();
  EXPECT_EQ(group.reduces, 0);
}
