// einsum beyond the generic suite: the text of the loop nest, refusals, the kernels that run, and
// random expressions against a naive evaluation.
#include "ops/matmul/einsum.h"
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include "autograd/backward.h"
#include "core/tensor/foreach.h"
#include "core/tensor/kernel.h"
#include "core/tensor/rng.h"
#include "ops/reduce.h"
#include "tests/refusal.h"

using namespace bellows;
using testing::ElementsAre;

static const Philox rng({.seed = 5, .purpose = Purpose::test});

static std::string message(const std::string& expression, std::initializer_list<Shape> shapes) {
  std::vector<Tensor> inputs;
  for (const Shape& shape : shapes) inputs.emplace_back(shape, DType::f32);
  return refusal([&] { einsum(expression, inputs); });
}

TEST(Einsum, AnOutputLetterThatNoInputHasIsNamed) {
  EXPECT_EQ(message("ij,ji->ik", {{2, 3}, {3, 2}}),
            "einsum 'ij,ji->ik': the output's letter k is in no input");
  EXPECT_EQ(message("abcde,fgbij->abcdefhi", {{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}}),
            "einsum 'abcde,fgbij->abcdefhi': the output's letter h is in no input");
}

TEST(Einsum, RefusesWhatDoesNotFitByName) {
  EXPECT_EQ(message("ij,jk", {{2, 3}}), "einsum 'ij,jk': no '->' before the letters of the output");
  EXPECT_EQ(message("i1->i", {{2, 3}}), "einsum 'i1->i': '1' is not a letter");
  EXPECT_EQ(message("i->ii", {{2}}), "einsum 'i->ii': the output has the letter i twice");
  EXPECT_EQ(message("ij,jk->ik", {{2, 3}}),
            "einsum 'ij,jk->ik': 2 terms for 1 tensors; it takes one or two of each");
  EXPECT_EQ(message("i,j,k->", {{2}, {2}, {2}}),
            "einsum 'i,j,k->': 3 terms for 3 tensors; it takes one or two of each");
  EXPECT_EQ(message("ii->i", {{2, 2}}),
            "einsum 'ii->i': a term has i twice; take the diagonal before");
  EXPECT_EQ(message("ij->i", {{2}}), "einsum 'ij->i': term ij for a tensor of shape [2]");
  EXPECT_EQ(message("ij,jk->ik", {{2, 3}, {4, 2}}),
            "einsum 'ij,jk->ik': letter j is 3 in one tensor and 4 in [4,2]");
}

TEST(Einsum, ExplainsItselfAsALoopNest) {
  EXPECT_EQ(explain_einsum("ij,jk->ki"),
            "for k:\n"
            "  for i:\n"
            "    y[k][i] = 0\n"
            "    for j:\n"
            "      y[k][i] += a[i][j] * b[j][k]\n");
  EXPECT_EQ(explain_einsum("i,j->ij"),
            "for i:\n"
            "  for j:\n"
            "    y[i][j] = a[i] * b[j]\n");
  EXPECT_EQ(explain_einsum("i,i->"),
            "y = 0\n"
            "for i:\n"
            "  y += a[i] * b[i]\n");
  EXPECT_THROW(explain_einsum("ij,ji->ik"), Error);
}

// Returns the number of matrix products in forward and backward.
static int64_t products_of(const std::string& expression, std::initializer_list<Shape> shapes) {
  const Kernels plain({});  // only plain kernels count their runs
  const auto runs = [] {
    for (const KernelRecord* kernel : kernel_records())
      if (kernel->name == std::string_view("matmul")) return kernel->runs[int(Device::cpu)].load();
    return int64_t(0);
  };
  const int64_t before = runs();
  std::vector<Tensor> inputs;
  for (const Shape& shape : shapes) inputs.push_back(require_grad(full(shape, 1)));
  backward(sum(einsum(expression, inputs)));
  return runs() - before;
}

TEST(Einsum, OfTwoTermsIsAMatmulAndSoIsEachGradient) {
  EXPECT_EQ(products_of("ij,jk->ki", {{2, 3}, {3, 4}}), 3);
  EXPECT_EQ(products_of("ij,jk->ijk", {{2, 3}, {3, 4}}), 3);
  EXPECT_EQ(products_of("i,i->", {{5}, {5}}), 3);
  EXPECT_EQ(products_of("i,j->ji", {{2}, {3}}), 3);
  EXPECT_EQ(products_of("bhqd,bhkd->bhqk", {{2, 3, 4, 5}, {2, 3, 6, 5}}), 3);
  EXPECT_EQ(products_of("nchw,oc->nohw", {{2, 3, 4, 5}, {2, 3}}), 3);
  EXPECT_EQ(products_of("ijk,lj->k", {{2, 3, 4}, {2, 3}}), 3) << "after sums over i and l";
  EXPECT_EQ(products_of(",ab->ba", {{}, {2, 3}}), 3);
}

TEST(Einsum, OfOneTermMultipliesNothingAndIsACopy) {
  EXPECT_EQ(products_of("ij->j", {{2, 3}}), 0);
  const Tensor x = tensor_of<float>({1, 2}, {2}), y = einsum("i->i", {x});
  fill(x, 0);
  EXPECT_THAT(y.data<float>(), ElementsAre(1, 2));
}

// Loops over all letters at once and looks up each element by its letters.
static std::map<std::string, double> naive(const std::vector<std::string>& terms,
                                           const std::string& out, const std::vector<Tensor>& in,
                                           const std::string& letters) {
  const auto size = [](char letter) { return int64_t(letter - 'a') % 3 + 1; };
  std::map<std::string, double> y;
  std::map<char, int64_t> at;
  int64_t points = 1;
  for (const char letter : letters) points *= size(letter);
  for (int64_t point = 0; point < points; ++point) {
    for (int64_t left = point; const char letter : letters) {
      at[letter] = left % size(letter);
      left /= size(letter);
    }
    double product = 1;
    for (size_t k = 0; k < in.size(); ++k) {
      int64_t offset = 0;
      for (size_t i = 0; i < terms[k].size(); ++i)
        offset += at[terms[k][i]] * in[k].strides()[int(i)];
      product *= in[k].ptr<double>()[offset];
    }
    std::string place;
    for (const char letter : out) place += cat(at[letter], ",");
    y[place] += product;
  }
  return y;
}

TEST(Einsum, RandomExpressionsEqualNaiveLoops) {
  uint64_t drawn = 0;
  const auto letters_of = [&](const std::string& from, int most) {
    std::string term;
    for (const char letter : from)
      if (int(term.size()) < most && rng.below(2, drawn++)) term += letter;
    return term;
  };
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<std::string> terms{letters_of("badcef", 4), letters_of("fabdec", 4)};
    terms.resize(1 + trial % 2);
    std::string all;
    for (const std::string& term : terms)
      for (const char letter : term)
        if (all.find(letter) == std::string::npos) all += letter;
    const std::string out = letters_of(all, 6);
    std::vector<Tensor> in;
    for (const std::string& term : terms) {
      Shape shape;
      for (const char letter : term) shape.push_back((letter - 'a') % 3 + 1);
      in.emplace_back(shape, DType::f64);
      fill_normal(in.back(), 0, 1, {.seed = drawn++});
    }
    const std::string expression = fmt::format("{}->{}", fmt::join(terms, ","), out);
    const Tensor y = einsum(expression, in);
    int64_t i = 0;
    for (const auto& [place, value] : naive(terms, out, in, all))
      ASSERT_NEAR(y.data<double>()[i++], value, 1e-12) << expression << " at " << place;
    ASSERT_EQ(i, y.numel()) << expression;
  }
}
