// 16-bit copies of weights: a fused update writes them with the bits of a cast, and a copy of old
// values is never read.
#include "autograd/amp.h"
#include "core/base/trace.h"
#include "tests/on_device.h"
#include "tests/optim/trained.h"

using namespace bellows;

namespace {

const trace::Counter &casts = trace::counter("amp.weight_casts"),
                     &copies_written = trace::counter("optim.copies_written");

// Weights and their optimizer. Copies are read in the same way as by products.
struct Net {
  explicit Net(OptimizerOptions options, bool fused = true, Device device = Device::cpu,
               NamedTensors weights = {})
      : parameters(weights.empty() ? odd_parameters(DType::f32, device) : std::move(weights)),
        optimizer(with(std::move(options), fused), parameters, rates({0.1, 0.05}),
                  std::vector(1, rates({0.2}))),
        state(device) {}
  // Adds a group of one weight, unless groups are given.
  static OptimizerOptions with(OptimizerOptions options, bool fused) {
    options.fused = fused;
    if (options.groups.empty()) {
      options.groups.resize(1);
      options.groups[0].parameters = "p5";
    }
    return options;
  }

  void update(int step, float bad = 0) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Tensor& w = parameters[i].tensor;
      const bool frozen = i == 1 && step % 3 == 1 && parameters.size() > 3;  // not a whole group
      const Tensor g = normal(w.shape(), DType::f32, 10 * step + i);
      if (bad != 0 && i == 0) g.ptr<float>()[0] = bad;
      set_grad(w, frozen ? Tensor() : to(w.device(), g));
    }
    optimizer.step(state);
  }
  Tensor copy(size_t i, DType low) const {
    const Autocast precision(low);
    return amp::to_low(parameters[i].tensor).detach();
  }
  // Reads and checks all copies. Returns how many had to be cast.
  int64_t read(DType low) const {
    const int64_t before = casts.value();
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Tensor w = parameters[i].tensor.detach(), c = copy(i, low);
      EXPECT_EQ(c.strides(), w.strides());
      EXPECT_TRUE(same_bits(to(Device::cpu, c), cast(to(Device::cpu, w), low)))
          << parameters[i].name;
    }
    return casts.value() - before;
  }

  NamedTensors parameters;
  Optimizer optimizer;
  DeviceStepState state;
};

int64_t written_by(const std::function<void()>& update) {
  const int64_t before = copies_written.value();
  update();
  return copies_written.value() - before;
}

void expect_written_along(const OptimizerOptions& options, DType low, Device device) {
  Net net(options, true, device, odd_parameters(DType::f32, device));
  const int64_t all = std::ssize(net.parameters);
  EXPECT_EQ(net.read(low), all);
  for (int step = 0; step < 3; ++step) {
    EXPECT_EQ(written_by([&] { net.update(step); }), all);
    EXPECT_EQ(net.read(low), 0) << "step " << step;
  }
  EXPECT_EQ(net.state.read().applied, 3);
}

OptimizerOptions skipping(OptimizerOptions options) {
  options.skip_nonfinite = true;
  return options;
}

class CopiesOnDevice : public OnDevice<> {};

OptimizerOptions momentum() { return sgd_options({{"momentum", "0.9"}, {"weight_decay", "0.01"}}); }

}  // namespace

TEST(Copies, AreWrittenAlongAsACastWould) {
  for (const OptimizerOptions& options : every_variant())
    for (const DType low : {DType::bf16, DType::f16}) {
      SCOPED_TRACE(cat(options.rule.name(), " ", low));
      expect_written_along(options, low, Device::cpu);
    }
}

TEST_F(CopiesOnDevice, AreWrittenAlongAsACastWould) {
  for (const OptimizerOptions& options :
       {momentum(), rule_options("adamw"), skipping(sgd_options())})
    for (const DType low : {DType::bf16, DType::f16}) {
      SCOPED_TRACE(cat(options.rule.name(), " ", low));
      expect_written_along(options, low, Device::cuda);
    }
}

static NamedTensors filters(Device device) {
  NamedTensors weights;
  for (const auto& [name, format] :
       {std::pair("p4", kNHWC), std::pair("p5", kNCHW), std::pair("p6", kNHWC)}) {
    const Tensor w({24, 5, 3, 2}, DType::f32, device, format);
    copy_into(w, to(device, normal(w.shape(), DType::f32, 7)));
    weights.push_back({name, require_grad(w)});
  }
  return weights;
}
TEST(Copies, LieInMemoryAsTheirWeights) {
  Net net(momentum(), true, Device::cpu, filters(Device::cpu));
  net.read(DType::f16);
  net.update(0);
  EXPECT_EQ(net.read(DType::f16), 0);
  EXPECT_TRUE(net.copy(0, DType::f16).is_contiguous(kNHWC));
}

static void expect_kept_by_a_skipped_update(Device device) {
  Net net(skipping(momentum()), true, device);
  net.read(DType::f16);
  net.update(0);
  EXPECT_EQ(net.read(DType::f16), 0);
  const Tensor before = to(Device::cpu, clone(net.copy(5, DType::f16)));
  net.update(2, INFINITY);
  EXPECT_EQ(net.state.read().skipped, 1);
  EXPECT_EQ(net.read(DType::f16), 0);
  EXPECT_TRUE(same_bits(before, to(Device::cpu, net.copy(5, DType::f16))));
  net.update(2);
  EXPECT_EQ(net.read(DType::f16), 0);
  EXPECT_FALSE(same_bits(before, to(Device::cpu, net.copy(5, DType::f16))));
}
TEST(Copies, AreKeptByASkippedUpdate) { expect_kept_by_a_skipped_update(Device::cpu); }
TEST_F(CopiesOnDevice, AreKeptByASkippedUpdate) { expect_kept_by_a_skipped_update(Device::cuda); }

TEST(Copies, OfWeightsThatAnybodyElseWroteAreCast) {
  Net net(momentum());
  net.read(DType::bf16);
  const Tensor w = net.parameters[3].tensor, other = normal(w.shape(), DType::f32, 9);
  const std::vector<std::function<void()>> writers = {
      [&] { fill(w, 3); },
      [&] { copy_into(w.detach(), other); },
      [&] { add_into(w, other, 0.1); },
      [&] {
        lerp_each({&w, 1}, {&other, 1}, 0.1);
      },
      [&] {
        swap_each({&other, 1}, {&w, 1});
      },
      [&] {
        copy_each({&w, 1}, {&other, 1});
      },
      [&] { fill_uniform(w, 0, 1, {}); },
  };
  for (const auto& write : writers) {
    net.update(0);
    write();
    EXPECT_EQ(net.read(DType::bf16), 1);
    write();
    net.update(2);
    EXPECT_EQ(net.read(DType::bf16), 1) << "what the update found was stale";
  }
}

TEST(Copies, AreWrittenOnlyIfTheyWereReadSince) {
  Net net(momentum());
  net.copy(3, DType::bf16);
  EXPECT_EQ(written_by([&] { net.update(0); }), 1);
  EXPECT_EQ(written_by([&] { net.update(2); }), 0);
  EXPECT_EQ(net.read(DType::bf16), std::ssize(net.parameters));
}

TEST(Copies, FollowTheForwardToAnotherPrecision) {
  Net net(momentum());
  for (const DType low : {DType::bf16, DType::f16, DType::bf16}) {
    EXPECT_EQ(net.read(low), std::ssize(net.parameters));
    net.update(0);
    EXPECT_EQ(net.read(low), 0);
  }
}

TEST(Copies, ThatAClosureKeepsAreLeftToIt) {
  Net net(momentum());
  const Tensor before = net.copy(3, DType::bf16);
  const Saved kept(before);
  EXPECT_EQ(written_by([&] { net.update(0); }), 0);
  EXPECT_TRUE(kept().defined());  // throws if it was written since
  EXPECT_NE(net.copy(3, DType::bf16).storage(), before.storage());
  EXPECT_GT(net.read(DType::bf16), 0);
}
