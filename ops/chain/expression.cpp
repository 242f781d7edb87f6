// Parser for the text of a pointwise chain.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include "core/base/file.h"
#include "core/config/hint.h"
#include "ops/chain/program.h"

namespace bellows {

// Limits on the text; kMostNested bounds the parser's stack.
static constexpr size_t kMostText = 1000;
static constexpr int kMostNested = 50;

static constexpr int kAdd = kStep<functors::Add>, kSub = kStep<functors::Sub>,
                     kMul = kStep<functors::Mul>, kDiv = kStep<functors::Div>;

static std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const StepFunction& f : step_functions())
    if (f.is_op) names.push_back(f.name);
  return names;
}

namespace {

// A constant until it becomes an operand of a step.
struct Term {
  bool is_number;
  double number;
  int step;
};

// sum     = product { (+ | -) product }
// product = factor { (* | /) factor }
// factor  = - factor | number | input | function ( sum { , sum } ) | ( sum )
class Parser {
 public:
  Parser(const std::string& text, const std::vector<std::string>& inputs)
      : text_(text), inputs_(inputs), mentioned_(inputs.size()) {}

  StepProgram parse() {
    CHECK(text_.size() <= kMostText, "pointwise: an expression of ", text_.size(),
          " characters is too long, ", kMostText, " is the most");
    CHECK(inputs_.size() <= kMostInputs, "pointwise: ", inputs_.size(), " inputs are too many, ",
          kMostInputs, " is the most");
    const Term all = sum();
    skip_spaces();
    if (at_ < text_.size()) refuse(at_, cat("'", here(), "' does not belong here"));
    for (size_t k = 0; k < inputs_.size(); ++k)
      if (!mentioned_[k]) refuse(0, cat("the input '", inputs_[k], "' is not used"));
    if (all.is_number) refuse(0, "it depends on no input");
    return make_program(steps_, {all.step});
  }

 private:
  [[noreturn]] void refuse(size_t at, const std::string& why) const {
    fail(Exit::usage, "pointwise: ", why, ", at column ", at + 1, " of  ", printable(text_));
  }

  // ---- lexer

  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char wanted) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!take(wanted)) refuse(at_, cat("'", wanted, "' is missing"));
  }
  std::string here() const { return printable(text_.substr(at_, 1)); }
  bool here_is(const char* others, int (*kind)(int)) const {
    if (at_ >= text_.size()) return false;
    const auto c = static_cast<unsigned char>(text_[at_]);
    return c < 128 && c && (kind(c) || std::strchr(others, c));
  }

  // ---- grammar

  // operand { (first | second) operand }, from left to right.
  Term terms(Term (Parser::*operand)(), char first, int first_op, char second, int second_op) {
    Term left = (this->*operand)();
    for (;;) {
      if (take(first)) {
        left = binary(first_op, left, (this->*operand)());
      } else if (take(second)) {
        left = binary(second_op, left, (this->*operand)());
      } else {
        return left;
      }
    }
  }
  Term sum() { return terms(&Parser::product, '+', kAdd, '-', kSub); }
  Term product() { return terms(&Parser::factor, '*', kMul, '/', kDiv); }

  Term factor() {
    if (++nested_ > kMostNested) refuse(at_, "it is nested too deeply");
    const Term term = signed_factor();
    --nested_;
    return term;
  }

  Term signed_factor() {
    if (take('-')) return negative(factor());
    if (take('(')) {
      const Term term = sum();
      expect(')');
      return term;
    }
    if (here_is(".", std::isdigit)) return number();
    if (here_is("_", std::isalpha)) return name();
    if (at_ < text_.size()) refuse(at_, cat("'", here(), "' does not belong here"));
    refuse(at_, "something is missing");
  }

  Term number() {
    double value = 0;
    const char* const first = text_.data() + at_;
    const auto [stop, error] = std::from_chars(first, text_.data() + text_.size(), value);
    if (error != std::errc()) refuse(at_, "this number cannot be represented");
    at_ += stop - first;
    return constant(value);
  }

  Term name() {
    const size_t first = at_;
    while (here_is("_", std::isalnum)) ++at_;
    const std::string word = text_.substr(first, at_ - first);
    if (take('(')) return call(word, first);
    const auto found = std::ranges::find(inputs_, word);
    if (found == inputs_.end())
      refuse(first, cat("there is no input '", word, "'", suggestion(word, inputs_)));
    mentioned_[found - inputs_.begin()] = true;
    return step({kInput, {int(found - inputs_.begin())}});
  }

  Term call(const std::string& word, size_t at) {
    const int op = op_named(word);
    if (op < 0) refuse(at, cat("there is no function '", word, "'", suggestion(word, op_names())));
    const bool two = step_functions()[op].arity == 2;
    const Term a = sum();
    if (take(',') != two) refuse(at, cat(word, " takes ", two ? "two operands" : "one operand"));
    const Term b = two ? sum() : a;
    expect(')');
    if (two) return binary(op, a, b);
    return a.is_number ? folded(op, a, a) : step({op, {a.step}});
  }

  static std::string suggestion(const std::string& word, const std::vector<std::string>& known) {
    return known.empty() ? "" : cat(", the nearest one is '", nearest(word, known), "'");
  }

  // ---- steps

  Term constant(double value) const {
    if (!std::isfinite(value)) refuse(at_, "this makes a number that is not finite");
    return {true, value, -1};
  }
  Term step(const Step& step) {
    const int number = add_step(steps_, step);
    if (number == kMostSteps) refuse(at_, cat("more than ", kMostSteps, " steps; split it"));
    return {false, 0, number};
  }
  Term affine(const Term& x, double scale, double shift) {
    return step({kAffine, {x.step}, scale, shift});
  }
  Term negative(const Term& x) { return x.is_number ? constant(-x.number) : affine(x, -1, 0); }

  Term folded(int op, const Term& a, const Term& b) const {
    return constant(call_step(functors::Steps(), op, a.number, b.number, 0.0));
  }

  // With one constant operand, affine has the same bits and saves nothing for backward.
  Term binary(int op, const Term& a, const Term& b) {
    if (a.is_number && b.is_number) return folded(op, a, b);
    const Term& x = a.is_number ? b : a;
    const double n = a.is_number ? a.number : b.number;
    if (a.is_number || b.is_number) {
      if (op == kMul) return affine(x, n, 0);
      if (op == kAdd) return affine(x, 1, n);
      if (op == kSub) return a.is_number ? affine(x, -1, n) : affine(x, 1, -n);
    }
    return step({op, {operand(a), operand(b)}});
  }
  int operand(const Term& term) {
    return term.is_number ? step({kNumber, {}, term.number}).step : term.step;
  }

  const std::string& text_;
  const std::vector<std::string>& inputs_;
  std::vector<char> mentioned_;
  size_t at_ = 0;
  int nested_ = 0;
  std::vector<Step> steps_;
};

}  // namespace

StepProgram parse_pointwise(const std::string& text, const std::vector<std::string>& inputs) {
  return Parser(text, inputs).parse();
}

}  // namespace bellows
