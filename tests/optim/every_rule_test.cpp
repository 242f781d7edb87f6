// Tests every registered update rule with all settings of its options.
#include <gtest/gtest.h>
#include <omp.h>
#include <cmath>
#include "tests/moved.h"
#include "tests/optim/trained.h"

using namespace bellows;

namespace {

class Threads {
 public:
  explicit Threads(int n) : before_(omp_get_max_threads()) { omp_set_num_threads(n); }
  ~Threads() { omp_set_num_threads(before_); }

 private:
  int before_;
};

std::string text_of(const OptimizerOptions& options) {
  std::string text;
  for (const auto& [key, value] : dump(options)) text += key + "=" + value.text + " ";
  return text;
}

// The odd parameters that a rule takes, and its optimizer. In f64, everything begins with the
// values of f32.
struct Trial {
  explicit Trial(OptimizerOptions options, bool fused = true, DType dtype = DType::f32)
      : parameters(odd_parameters(DType::f32)),
        optimizer(with_fused(options, fused), as(dtype), rates({0.1, 0.05})) {}

  void update(int step, double factor = 1) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Tensor& w = parameters[i].tensor;
      const Tensor g = gradient(i, step, w.shape(), DType::f32);
      for (float& value : g.data<float>()) value *= float(factor);
      set_grad(w, cast(g, w.dtype()));
    }
    optimizer.step(state);
  }
  // Copies of all weights and of the rule's state.
  Tensors values() const {
    Tensors all;
    for (const NamedTensor& p : parameters) all.push_back(clone(p.tensor.detach()));
    for (const NamedTensor& t : optimizer.state()) all.push_back(clone(t.tensor));
    return all;
  }
  void resume(const Trial& other) {
    for (size_t i = 0; i < parameters.size(); ++i)
      copy_into(parameters[i].tensor.detach(), other.parameters[i].tensor.detach());
    const NamedTensors here = optimizer.state(), there = other.optimizer.state();
    for (size_t i = 0; i < here.size(); ++i) {
      EXPECT_EQ(here[i].name, there[i].name);
      copy_into(here[i].tensor, there[i].tensor);
    }
    state.write(other.state.read());
  }

  NamedTensors parameters;
  Optimizer optimizer;
  DeviceStepState state{Device::cpu};

 private:
  static OptimizerOptions with_fused(OptimizerOptions options, bool fused) {
    options.fused = fused;
    options.skip_nonfinite = true;
    return options;
  }
  const NamedTensors& as(DType dtype) {
    for (NamedTensor& p : parameters)
      if (dtype != DType::f32) p.tensor = require_grad(cast(p.tensor.detach(), dtype));
    return parameters;
  }
};

void expect_same(const Tensors& a, const Tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(same_bits(a[i], b[i])) << "tensor " << i;
}

double norm_of(const NamedTensors& parameters) {
  Tensors weights;
  for (const NamedTensor& p : parameters) weights.push_back(p.tensor.detach());
  return bellows::norm_of(weights).item();
}

}  // namespace

TEST(EveryRule, HasVariants) {
  for (const std::string& name : Choice<UpdateRule()>::names())
    EXPECT_FALSE(variants_of(name).empty()) << name;
}

TEST(EveryRule, FusedEqualsPlainBitForBit) {
  const Threads one(1);  // other counts have their own test; many regions are slow on busy machines
  for (const OptimizerOptions& options : every_variant())
    expect_same_bits(train(options, false, 7), train(options, true, 7), text_of(options));
}

TEST(EveryRule, ThreadsDoNotChangeTheBits) {
  for (const std::string& name : Choice<UpdateRule()>::names()) {
    OptimizerOptions options = variants_of(name).back();
    options.clip_norm = 3;
    const auto with = [&](int threads, bool fused) {
      const Threads use(threads);
      return train(options, fused, 3);
    };
    const Trained one = with(1, true);
    for (const int threads : {2, 4}) {
      expect_same_bits(one, with(threads, true), cat(name, " ", threads, " threads"));
      expect_same_bits(one, with(threads, false), cat(name, " ", threads, " threads, plain"));
    }
  }
}

TEST(EveryRule, ResumesFromItsStateBitForBit) {
  for (const OptimizerOptions& options : every_variant())
    for (const bool fused : {false, true}) {
      SCOPED_TRACE(text_of(options));
      Trial first(options, fused), second(options, fused);
      first.update(0);
      first.update(1);
      second.resume(first);
      first.update(2);
      second.update(2);
      expect_same(first.values(), second.values());
    }
}

TEST(EveryRule, NonFiniteGradientChangesNothingButSkipped) {
  for (const float bad : {INFINITY, -INFINITY, NAN})
    for (const std::string& name : Choice<UpdateRule()>::names())
      for (const bool fused : {false, true}) {
        SCOPED_TRACE(cat(name, fused ? " fused" : "", " ", bad));
        Trial run(variants_of(name).back(), fused);
        run.update(0);
        const Tensors before = run.values();
        const Tensor last = grad(run.parameters.back().tensor);
        last.data<float>()[last.numel() - 1] = bad;
        run.optimizer.step(run.state);
        expect_same(before, run.values());
        EXPECT_EQ(run.state.read().applied, 1);
        EXPECT_EQ(run.state.read().skipped, 1);
        run.update(1);  // the next finite one is applied again
        EXPECT_EQ(run.state.read().applied, 2);
        EXPECT_FALSE(same_bits(before[0], run.values()[0]));
      }
}

TEST(EveryRule, LeavesAWeightWithAGradientOfZeroToItsDecay) {
  for (const std::string& name : Choice<UpdateRule()>::names())
    for (const bool fused : {false, true}) {
      SCOPED_TRACE(cat(name, fused ? " fused" : ""));
      const bool decays = dump(rule_options(name)).contains("weight_decay");
      Trial still(decays ? rule_options(name, {{"weight_decay", "0"}}) : rule_options(name), fused);
      const Tensors before = still.values();
      still.update(0, 0);
      const Tensors after = still.values();
      for (size_t i = 0; i < still.parameters.size(); ++i)
        EXPECT_TRUE(same_bits(before[i], after[i])) << still.parameters[i].name;
      if (!decays) continue;
      Trial decayed(rule_options(name, {{"weight_decay", "0.01"}}), fused);
      const double norm = norm_of(decayed.parameters);
      decayed.update(0, 0);
      EXPECT_LT(norm_of(decayed.parameters), norm);
    }
}

// The loss is |w|^2 / 2, so its gradient is w.
TEST(EveryRule, DescendsAQuadratic) {
  for (const OptimizerOptions& options : every_variant()) {
    Trial run(options);
    const double before = norm_of(run.parameters);
    for (int step = 0; step < 3; ++step) {
      for (const NamedTensor& p : run.parameters) set_grad(p.tensor, clone(p.tensor.detach()));
      run.optimizer.step(run.state);
    }
    EXPECT_LT(norm_of(run.parameters), before) << text_of(options);
  }
}

// The difference of all weights together, because a single quotient may be ill-conditioned.
TEST(EveryRule, FollowsItsDefinitionInF64) {
  for (const OptimizerOptions& options : every_variant()) {
    SCOPED_TRACE(text_of(options));
    Trial fast(options), exact(options, false, DType::f64);
    const Tensors start = exact.values();
    for (int step = 0; step < 3; ++step) fast.update(step), exact.update(step);
    double errors = 0, moves = 0;
    for (size_t i = 0; i < exact.parameters.size(); ++i) {
      const auto a = fast.parameters[i].tensor.data<float>();
      const auto b = exact.parameters[i].tensor.data<double>(), from = start[i].data<double>();
      for (size_t k = 0; k < b.size(); ++k) {
        errors += (a[k] - b[k]) * (a[k] - b[k]);
        moves += (b[k] - from[k]) * (b[k] - from[k]);
      }
    }
    EXPECT_GT(moves, 0);
    EXPECT_LE(std::sqrt(errors), 1e-3 * std::sqrt(moves));
  }
}

TEST(EveryRule, ReadsGradientsIn16Bits) {
  for (const OptimizerOptions& options : every_variant())
    for (const bool fused : {false, true}) expect_bits_of_casts(options, fused, Device::cpu, 4);
}

// A fused update reads them as they are. Others need a cast of each.
TEST(EveryRule, CastsGradientsIn16BitsOnlyWhereItIsNotFused) {
  const Moved read("optim.low_grads");
  const auto to_bf16 = [](const Tensor& g) { return cast(g, DType::bf16); };
  for (const std::string& name : Choice<UpdateRule()>::names()) {
    const int64_t before = read;
    train(rule_options(name), false, 1, DType::f32, Device::cpu, to_bf16);
    EXPECT_EQ(read, before) << name;
    train(rule_options(name), true, 1, DType::f32, Device::cpu, to_bf16);
    EXPECT_EQ(read, before + std::ssize(kOddShapes)) << name;
  }
}
