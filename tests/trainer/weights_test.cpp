// Weights from files that differ from the model where they need not agree.
#include <fstream>
#include <nlohmann/json.hpp>
#include "core/tensor/rng.h"
#include "tests/refusal.h"
#include "tests/trainer/program.h"
#include "tests/trainer/runs.h"
#include "trainer/state/training_state.h"

using namespace bellows;

namespace {

// The model: a convolution with a bias before a norm.
class Weights : public Program {
 protected:
  Plan plan(const char* dropped, const Values& more = {}) const {
    Values values = from_yaml(R"(
data: {name: digits, train_size: 64, test_size: 20, batch_size: 16}
model.name: layers
model.layers: [{name: conv2d, out: 4}, batch_norm, relu, flatten, {name: linear, out: 10}]
)");
    values["model.drop_conv_bias"] = {dropped};
    return plan_of(values, more);
  }
  // Trains and saves a model with large biases. Returns its output in evaluation.
  Tensor save_trained(const char* dropped) const {
    Session session(plan(dropped));
    bellows::run(session);
    NamedTensors tensors = snapshot(model_tensors(session));
    for (const auto& [name, tensor] : tensors)
      if (name == "0.bias")
        for (int i = 0; i < 4; ++i) tensor.ptr<float>()[i] += float(i + 1);
    write_safetensors(file_, tensors);
    const Values same = {{"train.weights", {file_}}};
    return evaluated(dropped, same).first;
  }
  // Replaces the file by one with these tensors and, if `dtype` is not empty, `raw`: 8 bytes of a
  // dtype that the writer does not have.
  void put(const NamedTensors& tensors, const std::string& raw = "", const char* dtype = "",
           int64_t elements = 0) const {
    Json header;
    std::string data;
    const auto add = [&](const std::string& name, const char* type, Shape shape,
                         std::string_view bytes) {
      header[name] = {{"dtype", type},
                      {"shape", std::vector(shape.begin(), shape.end())},
                      {"data_offsets", {data.size(), data.size() + bytes.size()}}};
      data += bytes;
    };
    for (const auto& [name, t] : tensors)
      add(name, t.dtype() == DType::f32 ? "F32" : "I64", t.shape(),
          {reinterpret_cast<const char*>(t.bytes()), t.nbytes()});
    if (*dtype) add(raw, dtype, {elements}, "12345678");
    const std::string text = to_line(header);
    const uint64_t length = text.size();
    std::ofstream(file_, std::ios::binary)
        << std::string_view(reinterpret_cast<const char*>(&length), 8) << text << data;
  }
  NamedTensors content() const { return read_safetensors(file_).tensors; }
  static NamedTensors without(const std::string& prefix, NamedTensors tensors) {
    std::erase_if(tensors, [&](const NamedTensor& t) { return t.name.starts_with(prefix); });
    return tensors;
  }
  using Evaluated = std::pair<Tensor, std::string>;  // and the last note
  Evaluated evaluated(const char* dropped, Values more) const {
    more.insert({"train.weights", {file_}});
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

// Such a file has no norms. Those of the model start as they would beside the bias of the file.
TEST_F(Weights, ABiasOfAFoldedFileOrNoneEvaluatesAsInAModelThatKeepsIt) {
  save_trained("false");
  for (const char* gone : {"1.", "0.b"}) {
    write_safetensors(file_, without(gone, content()));
    const Values loose = {{"train.weights_strict", {"false"}}};
    expect_near(evaluated("true", loose).first, evaluated("false", loose).first);
  }
}

TEST_F(Weights, NamesMayBeginAsThoseOfAnyWrappersInAnyOrder) {
  const Tensor expected = save_trained("false");
  const NamedTensors tensors = content();
  for (const char* prefix : {"module.", "_orig_mod.", "model.", "module._orig_mod.",
                             "_orig_mod.module.", "model.module._orig_mod."}) {
    NamedTensors wrapped = tensors;
    for (NamedTensor& t : wrapped) t.name = prefix + t.name;
    wrapped.push_back({"loss.weight", zeros({2})});
    write_safetensors(file_, wrapped);
    for (const char* drop : {"true", "false"})
      expect_near(evaluated(drop, {{"train.weights_strict", {"false"}}}).first, expected);
    wrapped.pop_back();
    write_safetensors(file_, wrapped);
    expect_near(evaluated("false", {}).first, expected);
  }
}

TEST_F(Weights, TensorsOfDtypesThatOnlyOthersHaveMayBeThereUnused) {
  const Tensor expected = save_trained("true");
  const NamedTensors tensors = content();
  const std::pair<const char*, int64_t> dtypes[] = {{"BOOL", 8},    {"I8", 8},     {"I16", 4},
                                                    {"U16", 4},     {"U32", 2},    {"U64", 1},
                                                    {"F8_E4M3", 8}, {"F8_E5M2", 8}};
  for (const auto& [dtype, elements] : dtypes) {
    put(tensors, "module.mask", dtype, elements);
    const auto [y, note] = evaluated("true", {{"train.weights_strict", {"false"}}});
    expect_near(y, expected);
    EXPECT_THAT(note, HasSubstr("; unused: mask")) << dtype;
    EXPECT_THAT(refusal([&] { evaluated("true", {}); }), HasSubstr("unexpected: mask"));
    put(without("4.bias", tensors), "4.bias", dtype, elements);
    for (const char* strict : {"true", "false"})
      EXPECT_THAT(refusal([&] {
                    evaluated("true", {{"train.weights_strict", {strict}}});
                  }),
                  HasSubstr(cat("4.bias has dtype ", dtype, ", which this program does not read; ",
                                "save it as f32")));
  }
  put(tensors, "mask", "F6_X", 8);
  EXPECT_THAT(refusal([&] { evaluated("true", {}); }), HasSubstr("which is not known"));
}

TEST_F(Weights, SeveralFilesAreReadByTheirIndexAndEitherByItsFolder) {
  const Tensor expected = save_trained("true");
  expect_near(evaluated("true", {{"train.weights", {folder_}}}).first, expected);
  const NamedTensors tensors = content();
  write_safetensors(folder_ / "a.safetensors", {tensors.begin(), tensors.begin() + 3});
  write_safetensors(folder_ / "b.safetensors", {tensors.begin() + 3, tensors.end()});
  std::filesystem::remove(file_);
  const Path index = folder_ / "model.safetensors.index.json";
  Json map;
  for (size_t i = 0; i < tensors.size(); ++i)
    map[tensors[i].name] = i < 3 ? "a.safetensors" : "b.safetensors";
  write(index, to_line({{"metadata", {{"total_size", 7}}}, {"weight_map", map}}));
  for (const Path& weights : {index, folder_})
    expect_near(evaluated("true", {{"train.weights", {weights}}}).first, expected);
  const auto refused_with = [&](const std::string& text) {
    write(index, text);
    return refusal([&] { evaluated("true", {{"train.weights", {folder_}}}); });
  };
  for (const char* name : {"../m.safetensors", "/etc/passwd", ""})
    EXPECT_THAT(refused_with(to_line({{"weight_map", {{"w", name}}}})),
                HasSubstr(cat("weight_map names '", name, "', which is not a file beside it")));
  EXPECT_THAT(refused_with(R"({"weight_map": {"w": "gone.safetensors"}})"),
              HasSubstr("gone.safetensors"));
  EXPECT_THAT(refused_with(R"({"weight_map": )" + std::string(200'000, '[')),
              HasSubstr("not a file beside it"));
}

// Any program may have written the metadata.
TEST_F(Weights, OtherClassesAreNamedWithBothLists) {
  save_trained("true");
  const NamedTensors tensors = content();
  const auto warnings = [&](const std::string& classes) {
    write_safetensors(file_, tensors, {{"classes", classes}});
    Session session(plan("true", {{"train.weights", {file_}}}));
    std::vector<std::string> notes;
    load_weights(session, notes);
    notes.pop_back();
    return notes;
  };
  EXPECT_THAT(warnings(R"(["0","1","2","3","4","5","6","7","8","9"])"), IsEmpty());
  EXPECT_THAT(warnings(R"(["cat","dog"])"),
              ElementsAre(cat("warning: ", file_, ": the classes differ from those of the ",
                              "model: 10 classes: 0, 1, 2, 3, 4, 5, 6, 7, ...; the model ",
                              "has 2: cat, dog")));
  EXPECT_THAT(warnings(R"(["0","1","2","3","4","5","6","7","9","8"])"),
              ElementsAre(EndsWith("model: 10 classes, from 9 on: 8, 9; the model has 10: 9, 8")));
  for (const char* other : {"", "ten", "[1]", "{\"a\": 1}", "[", "[[]]", "[]"})
    EXPECT_THAT(warnings(other), IsEmpty()) << other;
}

TEST_F(Weights, ARunFolderMeansItsNewestCheckpoint) {
  const std::string trained = hash_in(Program::run(tiny({})).out);
  const Ended ended = Program::run(tiny({"train.weights=runs/run", "train.epochs=0"}));
  EXPECT_EQ(hash_in(ended.out), trained) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("weights: runs/run/checkpoints/step_00000008.safetensors\n"));
  expect_refusal(tiny({"train.weights=runs"}), 4, "runs/checkpoints: no checkpoint");
}
