// Weights from files that differ from the model where they need not agree.
#include "trainer/state/weights.h"
#include <gmock/gmock.h>
#include "core/tensor/copy.h"
#include "core/tensor/rng.h"
#include "tests/trainer/program.h"
#include "tests/trainer/runs.h"
#include "trainer/state/training_state.h"

using namespace bellows;
using testing::HasSubstr;

namespace {

// The model: a convolution with a bias before a norm.
class Weights : public Program {
 protected:
  Plan plan(const char* dropped, const Values& more = {}) const {
    return plan_of({{"data.name", {"digits"}},
                    {"data.train_size", {"64"}},
                    {"data.test_size", {"20"}},
                    {"data.batch_size", {"16"}},
                    {"model.name", {"layers"}},
                    {"model.layers.0.name", {"conv2d"}},
                    {"model.layers.0.out", {"4"}},
                    {"model.layers.1.name", {"batch_norm"}},
                    {"model.layers.2.name", {"relu"}},
                    {"model.layers.3.name", {"flatten"}},
                    {"model.layers.4.name", {"linear"}},
                    {"model.layers.4.out", {"10"}},
                    {"model.drop_conv_bias", {dropped}}},
                   more);
  }
  // Trains and saves a model with large biases. Returns its output in evaluation.
  Tensor save_trained(const char* dropped, const std::string& prefix = "") const {
    Session session(plan(dropped));
    bellows::run(session);
    NamedTensors tensors = snapshot(model_tensors(session));
    for (auto& [name, tensor] : tensors) {
      if (name == "0.bias")
        for (int i = 0; i < 4; ++i) tensor.ptr<float>()[i] += float(i + 1);
      name = prefix + name;
    }
    write_safetensors(file_, tensors);
    const Values same = {{"train.weights", {file_}}};
    return evaluated(dropped, same).first;
  }
  using Evaluated = std::pair<Tensor, std::string>;  // and the last note
  Evaluated evaluated(const char* dropped, Values more) const {
    more["train.weights"] = {file_};
    Session session(plan(dropped, more));
    std::vector<std::string> notes;
    load_weights(session, notes);
    session.model->train(false);
    const NoGrad untracked;
    Tensor x({5, 1, 28, 28}, DType::f32);
    fill_normal(x, 0, 1, {.seed = 3, .purpose = Purpose::test});
    return {(*session.model)(x), notes.back()};
  }

  const std::string file_ = folder_ / "model.safetensors";
};

void expect_near(const Tensor& a, const Tensor& b) {
  for (int64_t i = 0; i < a.numel(); ++i) ASSERT_NEAR(a.ptr<float>()[i], b.ptr<float>()[i], 1e-4);
}

}  // namespace

TEST_F(Weights, ABiasThatTheModelHasDroppedGoesIntoTheRunningMean) {
  const Tensor expected = save_trained("false");
  for (const char* strict : {"true", "false"}) {
    const auto [y, note] = evaluated("true", {{"train.weights_strict", {strict}}});
    expect_near(y, expected);
    EXPECT_EQ(note, cat("weights: ", file_,
                        "; subtracted from the running mean after it (drop_conv_bias): 0.bias"));
  }
}

TEST_F(Weights, ABiasThatTheFileLacksIsZero) {
  const Tensor expected = save_trained("true");
  const auto [y, note] = evaluated("false", {});
  expect_near(y, expected);
  EXPECT_EQ(note, cat("weights: ", file_, "; missing, so 0: 0.bias"));
}

TEST_F(Weights, NamesMayBeginAsThoseOfDistributedDataParallel) {
  save_trained("true", "module.");
  const Tensor wrapped = evaluated("true", {}).first;
  NamedTensors tensors = read_safetensors(file_).tensors;
  for (NamedTensor& t : tensors) t.name.erase(0, 7);
  write_safetensors(file_, tensors);
  expect_near(wrapped, evaluated("true", {}).first);
}

TEST_F(Weights, NamesTensorsThatTheModelLacks) {
  save_trained("true");
  NamedTensors tensors = read_safetensors(file_).tensors;
  tensors.push_back({"4.mask", zeros({3})});
  write_safetensors(file_, tensors);
  EXPECT_THAT(evaluated("true", {{"train.weights_strict", {"false"}}}).second,
              HasSubstr("; unused: 4.mask"));
  expect_refusal(tiny({"train.weights=model.safetensors"}), 4, "unexpected: 0.weight");
}

TEST_F(Weights, ARunFolderMeansItsNewestCheckpoint) {
  const std::string trained = hash_in(Program::run(tiny({})).out);
  const Ended ended = Program::run(tiny({"train.weights=runs/run", "train.epochs=0"}));
  EXPECT_EQ(hash_in(ended.out), trained) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("weights: runs/run/checkpoints/step_00000008.safetensors\n"));
  expect_refusal(tiny({"train.weights=runs"}), 4, "runs/checkpoints: no checkpoint");
}
