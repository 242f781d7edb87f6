// Expressions of chains: their values, and the errors for invalid ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cmath>
#include "ops/chain/pointwise.h"
#include "tests/refusal.h"

using namespace bellows;
using testing::EndsWith;
using testing::HasSubstr;

// Value of the expression at a = 3, b = 0.5.
static double value(const std::string& text) {
  const bool one = text.find('b') == std::string::npos;
  const Chain chain(text, one ? std::vector<std::string>{"a"} : std::vector<std::string>{"a", "b"});
  Inputs in{full({}, 3, DType::f64), full({}, 0.5, DType::f64)};
  in.resize(chain.inputs().size());
  return pointwise(chain, in, Impl::fused).item();
}

TEST(Expression, BindsAsArithmeticDoes) {
  EXPECT_EQ(value("a - b - 1"), 1.5);
  EXPECT_EQ(value("a / b / 2"), 3);
  EXPECT_EQ(value("a + b * 4"), 5);
  EXPECT_EQ(value("(a + b) * 4"), 14);
  EXPECT_EQ(value("-a * b"), -1.5);
  EXPECT_EQ(value("2 - -a"), 5);
  EXPECT_EQ(value("a*(b-(1-a))"), 7.5);
  EXPECT_EQ(value("- ( - a )"), 3);
}

TEST(Expression, KnowsTheFunctorsByTheirNames) {
  EXPECT_EQ(value("relu(-a) + square(a)"), 9);
  EXPECT_EQ(value("maximum(a, b) - minimum(a, b)"), 2.5);
  EXPECT_EQ(value("sub(add(a, b), mul(a, div(b, 1)))"), 2);
  EXPECT_DOUBLE_EQ(value("log(exp(a))"), 3);
  EXPECT_DOUBLE_EQ(value("sigmoid(a)"), 1 / (1 + std::exp(-3)));
}

TEST(Expression, TakesNumbersAsEverybodyWritesThem) {
  EXPECT_EQ(value("a + 1.5e2"), 153);
  EXPECT_EQ(value("a * .5"), 1.5);
  EXPECT_EQ(value("a + 2E-1"), 3.2);
  EXPECT_EQ(value("1 - a"), -2);
  EXPECT_EQ(value("12 / a"), 4);
  EXPECT_EQ(value("maximum(a, 7)"), 7);
}

// ---- mistakes

static std::string mistake(const std::string& text,
                           const std::vector<std::string>& inputs = {"x", "scale"}) {
  const Refusal r = refused([&] { parse_pointwise(text, inputs); });
  EXPECT_EQ(r.exit, Exit::usage);
  return r.message;
}

TEST(Expression, SaysWhereItCannotGoOnAndNamesTheNearestFunctionOrInput) {
  const auto said = [](const std::string& text) {
    const std::string message = mistake(text);
    const std::string end = " of  " + text;
    EXPECT_THAT(message, EndsWith(end));
    return message.substr(11, message.size() - 11 - end.size());
  };
  EXPECT_EQ(said(""), "something is missing, at column 1");
  EXPECT_EQ(said("x +"), "something is missing, at column 4");
  EXPECT_EQ(said("x + rleu(scale)"),
            "there is no function 'rleu', the nearest one is 'relu', at column 5");
  EXPECT_EQ(said("x * scael"),
            "there is no input 'scael', the nearest one is 'scale', at column 5");
  EXPECT_EQ(said("x + * scale"), "'*' does not belong here, at column 5");
  EXPECT_EQ(said("x scale"), "'s' does not belong here, at column 3");
  EXPECT_EQ(said("(x * scale"), "')' is missing, at column 11");
  EXPECT_EQ(said("x * scale)"), "')' does not belong here, at column 10");
  EXPECT_EQ(said("relu(x, scale)"), "relu takes one operand, at column 1");
  EXPECT_EQ(said("x - maximum(scale)"), "maximum takes two operands, at column 5");
  EXPECT_EQ(said("maximum(x, scale, 1)"), "')' is missing, at column 17");
  EXPECT_EQ(said("x ^ scale"), "'^' does not belong here, at column 3");
  EXPECT_EQ(said("x; scale"), "';' does not belong here, at column 2");
  EXPECT_EQ(said("x * 1e999"), "this number cannot be represented, at column 5");
  EXPECT_EQ(said("x * (1 / 0)"), "this makes a number that is not finite, at column 11");
  EXPECT_EQ(said("x * 2"), "the input 'scale' is not used, at column 1");
  EXPECT_EQ(said("x. * scale"), "'.' does not belong here, at column 2");
}

TEST(Expression, RefusesWhatDependsOnNothing) {
  EXPECT_EQ(mistake("1 + 2", {}), "pointwise: it depends on no input, at column 1 of  1 + 2");
}

TEST(Expression, PrintsHostileTextSafely) {
  EXPECT_EQ(mistake("x + \x1b[2J"),
            "pointwise: '\\x1b' does not belong here, at column 5 of  x + \\x1b[2J");
  EXPECT_THAT(mistake("x + \xc3\xa9"), HasSubstr("does not belong here, at column 5"));
  EXPECT_THAT(mistake(std::string("x\0+", 3)), HasSubstr("does not belong here, at column 2"));
}

TEST(Expression, HasLimits) {
  EXPECT_THAT(mistake(std::string(100, '(') + "x"), HasSubstr("it is nested too deeply"));
  EXPECT_THAT(mistake(std::string(200, '-') + "x"), HasSubstr("it is nested too deeply"));
  EXPECT_THAT(mistake(std::string(2000, ' ') + "x"), HasSubstr("2001 characters is too long"));
  EXPECT_EQ(mistake("x", std::vector<std::string>(9, "x")),
            "pointwise: 9 inputs are too many, 8 is the most");
  std::string many = "x";
  for (int i = 1; i < 60; ++i) many += cat(" + ", i);
  EXPECT_THAT(mistake(many), HasSubstr("more than 32 steps; split it"));
}
