#include "ops/matmul/einsum.h"
#include <map>
#include "core/tensor/copy.h"
#include "ops/base/op.h"
#include "ops/base/work.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce.h"
#include "ops/shape.h"

namespace bellows {

namespace {

using std::ranges::count;
using Sizes = std::map<char, int64_t>;  // by letter

struct Expression {
  std::vector<std::string> terms;  // one per input
  std::string out;
  std::string all;                       // letters of the terms, in order of appearance
  std::string where;                     // begins each message
  Sizes sizes(TensorSpan inputs) const;  // throws unless the tensors fit their terms
};

Expression parse(const std::string& text) {
  const std::string where = cat("einsum '", text, "': ");
  std::string letters = text;
  std::erase(letters, ' ');
  const size_t arrow = letters.find("->");
  CHECK(arrow != letters.npos, where, "no '->' before the letters of the output");
  Expression e{{}, letters.substr(arrow + 2), "", where};
  std::istringstream terms(letters.substr(0, arrow) + ",");
  for (std::string term; std::getline(terms, term, ',');) {
    for (const char c : term) {
      CHECK(std::isalpha(static_cast<unsigned char>(c)), where, "'", c, "' is not a letter");
      CHECK(count(term, c) == 1, where, "a term has ", c, " twice; take the diagonal before");
      if (!count(e.all, c)) e.all += c;
    }
    e.terms.push_back(term);
  }
  for (const char c : e.out) {
    CHECK(count(e.all, c), where, "the output's letter ", c, " is in no input");
    CHECK(count(e.out, c) == 1, where, "the output has the letter ", c, " twice");
  }
  return e;
}

Sizes Expression::sizes(TensorSpan inputs) const {
  CHECK(terms.size() == inputs.size() && inputs.size() <= 2, where, terms.size(), " terms for ",
        inputs.size(), " tensors; it takes one or two of each");
  Sizes sizes;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const Tensor& t = inputs[k];
    CHECK(t.dtype() == inputs[0].dtype(), where, "dtypes ", inputs[0].dtype(), " and ", t.dtype());
    CHECK(int(terms[k].size()) == t.rank(), where, "term ", terms[k], " for a tensor of shape ",
          t.shape());
    for (int i = 0; i < t.rank(); ++i) {
      const auto& [letter, size] = *sizes.emplace(terms[k][i], t.dim(i)).first;
      CHECK(size == t.dim(i), where, "letter ", letter, " is ", size, " in one tensor and ",
            t.dim(i), " in ", t.shape());
    }
  }
  return sizes;
}

// A tensor, and the letters of its axes.
struct Factor {
  std::string letters;
  Tensor t;

  // Sums over the letters that are not in `wanted`.
  Factor summed_to(const std::string& wanted) const {
    std::string left;
    Shape kept = t.shape(), shape;
    for (int i = 0; i < t.rank(); ++i)
      if (count(wanted, letters[i]))
        left += letters[i], shape.push_back(t.dim(i));
      else
        kept[i] = 1;
    return {left, left == letters ? t : kernels::sum(t, kept, 1).view_as(shape)};
  }

  // Returns t with one axis for each of these groups of its letters; copies t if it must.
  Tensor matrices(const Sizes& sizes, const std::array<std::string, 3>& groups) const {
    Shape order, shape;
    for (const std::string& group : groups) {
      shape.push_back(1);
      for (const char letter : group)
        order.push_back(int(letters.find(letter))), shape[-1] *= sizes.at(letter);
    }
    return reshape(permute(t, order), shape);
  }
};

// Letters of a, b and y are batches, letters of y and one factor are rows or columns, and letters
// of a and b alone are contracted. The factor that has the first row or column of y provides the
// rows, so y seldom needs a copy.
Factor matrix_product(const Sizes& sizes, Factor a, Factor b, const std::string& out) {
  a = a.summed_to(b.letters + out);
  b = b.summed_to(a.letters + out);
  std::string batch, rows, columns, contracted;
  for (const char letter : out) {
    const bool in_a = count(a.letters, letter), in_b = count(b.letters, letter);
    if (!in_a && !in_b) continue;
    if (!in_a && rows.empty()) std::swap(a, b);
    (in_a && in_b ? batch : count(a.letters, letter) ? rows : columns) += letter;
  }
  for (const char letter : a.letters)
    if (!count(out, letter)) contracted += letter;
  const Tensor y = kernels::product(a.matrices(sizes, {batch, rows, contracted}),
                                    b.matrices(sizes, {batch, contracted, columns}));
  Shape shape;
  for (const char letter : batch + rows + columns) shape.push_back(sizes.at(letter));
  return {batch + rows + columns, y.view_as(shape)};
}

// y may have any strides, and share the storage of a single input. Letters of `out` alone, which
// only gradients have, get stride 0.
Tensor computed(const Sizes& sizes, TensorSpan inputs, const std::vector<std::string>& terms,
                const std::string& out) {
  const Factor a{terms[0], inputs[0]};
  const Factor y =
      inputs.size() == 1 ? a.summed_to(out) : matrix_product(sizes, a, {terms[1], inputs[1]}, out);
  Shape shape;
  Strides strides;
  for (const char letter : out) {
    const size_t axis = y.letters.find(letter);
    shape.push_back(sizes.at(letter));
    strides.push_back(axis == out.npos ? 0 : y.t.strides()[int(axis)]);
  }
  return y.t.view(shape, strides, y.t.offset());
}

}  // namespace

Tensor einsum(const std::string& expression, TensorSpan inputs) {
  const Expression e = parse(expression);
  const Sizes sizes = e.sizes(inputs);
  const Tensor terms = computed(sizes, inputs, e.terms, e.out);
  const Tensor y = inputs.size() == 1 ? clone(terms) : contiguous(terms);
  if (!will_record(inputs)) return y;
  // The gradient of an input is also an einsum: of dy and the other input, to that input's letters.
  const std::array wanted{needs_grad(inputs[0]), needs_grad(inputs.back())};
  return record(
      "einsum", y, inputs,
      [e, sizes, wanted,
       saved = std::vector<Saved>(inputs.begin(), inputs.end())](const Tensor& dy) {
        const size_t n = saved.size();
        Grads grads(n);
        for (size_t k = 0; k < n; ++k) {
          const Tensor factors[] = {dy, saved[n - 1 - k]()};
          if (wanted[k])
            grads[k] = computed(sizes, {factors, n}, {e.out, e.terms[n - 1 - k]}, e.terms[k]);
        }
        return grads;
      });
}

std::string explain_einsum(const std::string& expression) {
  const Expression e = parse(expression);
  const auto element = [](std::string text, const std::string& letters) {
    for (const char letter : letters) text += cat("[", letter, "]");
    return text;
  };
  std::string text, indent, loops = e.out;
  std::ranges::copy_if(e.all, std::back_inserter(loops), [&](char c) { return !count(e.out, c); });
  for (size_t i = 0; i < loops.size(); ++i, indent += "  ") {
    if (i == e.out.size()) text += cat(indent, element("y", e.out), " = 0\n");
    text += cat(indent, "for ", loops[i], ":\n");
  }
  text += cat(indent, element("y", e.out), loops.size() > e.out.size() ? " += " : " = ");
  for (size_t k = 0; k < e.terms.size(); ++k)
    text += cat(k ? " * " : "", element(std::string(1, char('a' + k)), e.terms[k]));
  return text + "\n";
}

static const AddWork work("einsum", [](const RecordedOp& op) -> OpWork {
  fail(Exit::usage, op.path, ": shapes do not show the work of an einsum; write matmul, permute");
});

// ---- specs

static AddOp spec(const char* expression, const std::vector<Shapes>& cases,
                  const std::vector<Shapes>& rejects = {}) {
  return AddOp({.name = "einsum",
                .math = "product of shared letters, sum over dropped ones",
                .cases = cases,
                .run = [expression](const Inputs& in) { return einsum(expression, in); },
                .rejects = rejects,
                .variant = expression});
}
static const AddOp specs[] = {
    spec("ij,jk->ki", {{{2, 3}, {3, 4}}}, {{{2, 3}, {4, 2}}, {{2}, {2, 3}}}),
    spec("ij,jk->ijk", {{{2, 3}, {3, 4}}}),
    spec("i,i->", {{{5}, {5}}}),
    spec("ijk,lj->k", {{{2, 3, 4}, {2, 3}}}),
    spec("nchw,oc->nohw", {{{2, 3, 4, 5}, {2, 3}}}),
};

}  // namespace bellows
