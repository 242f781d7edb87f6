#include "ops/matmul/einsum.h"
#include "core/tensor/copy.h"
#include "ops/base/op.h"
#include "ops/base/work.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce.h"
#include "ops/shape.h"

namespace bellows {

namespace {

bool has_letter(const std::string& letters, char letter) {
  return letters.find(letter) != std::string::npos;
}

struct Expression {
  std::vector<std::string> terms;  // one per input
  std::string out;
  std::string all;  // letters of the terms, in order of appearance
};

Expression parse(const std::string& text) {
  const std::string where = cat("einsum '", text, "': ");
  std::string letters = text;
  std::erase(letters, ' ');
  const size_t arrow = letters.find("->");
  CHECK(arrow != letters.npos, where, "no '->' before the letters of the output");
  Expression e{{""}, letters.substr(arrow + 2), ""};
  for (const char c : letters.substr(0, arrow)) {
    if (c == ',') {
      e.terms.emplace_back();
      continue;
    }
    CHECK(std::isalpha(static_cast<unsigned char>(c)), where, "'", c, "' is not a letter");
    CHECK(!has_letter(e.terms.back(), c), where, "a term has the letter ", c,
          " twice; take the diagonal before");
    e.terms.back() += c;
    if (!has_letter(e.all, c)) e.all += c;
  }
  for (const char c : e.out) {
    CHECK(has_letter(e.all, c), where, "the output's letter ", c, " is in no input");
    CHECK(std::ranges::count(e.out, c) == 1, where, "the output has the letter ", c, " twice");
  }
  return e;
}

// A tensor, and the letters of its axes.
struct Factor {
  std::string letters;
  Tensor t;

  int64_t size_of(char letter) const { return t.dim(int(letters.find(letter))); }

  // Sums over the letters that are not in `wanted`.
  Factor summed_to(const std::string& wanted) const {
    Factor left{"", t};
    Shape kept = t.shape(), shape;
    for (int i = 0; i < t.rank(); ++i) {
      const bool stays = has_letter(wanted, letters[i]);
      if (stays) left.letters += letters[i], shape.push_back(t.dim(i));
      if (!stays) kept[i] = 1;
    }
    if (left.letters != letters) left.t = kernels::sum(t, kept, 1).view_as(shape);
    return left;
  }

  // Returns t with one axis for each of these groups of its letters; copies t if it must.
  Tensor matrices(const std::string& batch, const std::string& rows,
                  const std::string& columns) const {
    Shape order, shape;
    for (const std::string* group : {&batch, &rows, &columns}) {
      shape.push_back(1);
      for (const char letter : *group) {
        order.push_back(int(letters.find(letter)));
        shape[-1] *= size_of(letter);
      }
    }
    return reshape(permute(t, order), shape);
  }
};

void check_fit(const std::string& text, const Expression& e, TensorSpan inputs) {
  const std::string where = cat("einsum '", text, "': ");
  CHECK(e.terms.size() == inputs.size() && inputs.size() <= 2, where, e.terms.size(), " terms for ",
        inputs.size(), " tensors; it takes one or two of each");
  for (size_t k = 0; k < inputs.size(); ++k) {
    CHECK(inputs[k].dtype() == inputs[0].dtype(), where, "dtypes ", inputs[0].dtype(), " and ",
          inputs[k].dtype());
    CHECK(int(e.terms[k].size()) == inputs[k].rank(), where, "term ", e.terms[k],
          " for a tensor of shape ", inputs[k].shape());
  }
  const Factor first{e.terms[0], inputs[0]}, last{e.terms.back(), inputs.back()};
  for (const char letter : first.letters)
    CHECK(!has_letter(last.letters, letter) || first.size_of(letter) == last.size_of(letter), where,
          "letter ", letter, " is ", first.size_of(letter), " in one tensor and ",
          last.size_of(letter), " in ", last.t.shape());
}

// Letters of a, b and y are batches, letters of y and one factor are rows or columns, and letters
// of a and b alone are contracted. The factor that has the first row or column of y provides the
// rows, so y seldom needs a copy.
Factor matrix_product(Factor a, Factor b, const std::string& out) {
  a = a.summed_to(b.letters + out);
  b = b.summed_to(a.letters + out);
  std::string batch, rows, columns, contracted;
  for (const char letter : out) {
    const bool in_a = has_letter(a.letters, letter), in_b = has_letter(b.letters, letter);
    if (in_a && in_b) {
      batch += letter;
    } else if (in_a || in_b) {
      if (rows.empty() && in_b) std::swap(a, b);
      (has_letter(a.letters, letter) ? rows : columns) += letter;
    }
  }
  for (const char letter : a.letters)
    if (!has_letter(out, letter)) contracted += letter;
  const Tensor y =
      kernels::product(a.matrices(batch, rows, contracted), b.matrices(batch, contracted, columns));
  Shape shape;
  for (const char letter : batch + rows) shape.push_back(a.size_of(letter));
  for (const char letter : columns) shape.push_back(b.size_of(letter));
  return {batch + rows + columns, y.view_as(shape)};
}

// y may have any strides, and share the storage of a single input. Letters of `out` alone, which
// only gradients have, get stride 0 and their size from `shape`.
Tensor computed(TensorSpan inputs, const std::vector<std::string>& terms, const std::string& out,
                const Shape& shape) {
  const Factor a{terms[0], inputs[0]};
  const Factor y =
      inputs.size() == 1 ? a.summed_to(out) : matrix_product(a, {terms[1], inputs[1]}, out);
  Strides strides = shape;
  for (int i = 0; i < shape.rank(); ++i) {
    const size_t axis = y.letters.find(out[i]);
    strides[i] = axis == std::string::npos ? 0 : y.t.strides()[int(axis)];
  }
  return y.t.view(shape, strides, y.t.offset());
}

}  // namespace

// The gradient of an input is also an einsum: of dy and the other input, to that input's letters.
static Tensor gradient(const Expression& e, const std::vector<Saved>& inputs, const Tensor& dy,
                       size_t of) {
  const Shape& shape = inputs[of]().shape();
  if (inputs.size() == 1) return computed({&dy, 1}, {e.out}, e.terms[0], shape);
  const Tensor factors[] = {dy, inputs[1 - of]()};
  return computed(factors, {e.out, e.terms[1 - of]}, e.terms[of], shape);
}

Tensor einsum(const std::string& expression, TensorSpan inputs) {
  const Expression e = parse(expression);
  check_fit(expression, e, inputs);
  Shape shape;
  for (const char letter : e.out) {
    const size_t k = has_letter(e.terms[0], letter) ? 0 : 1;
    shape.push_back(Factor{e.terms[k], inputs[k]}.size_of(letter));
  }
  const Tensor terms = computed(inputs, e.terms, e.out, shape);
  const Tensor y = inputs.size() == 1 ? clone(terms) : contiguous(terms);
  if (!will_record(inputs)) return y;
  const bool wanted[] = {needs_grad(inputs[0]), needs_grad(inputs.back())};
  return record("einsum", y, inputs,
                [e, wanted = std::to_array(wanted),
                 saved = std::vector<Saved>(inputs.begin(), inputs.end())](const Tensor& dy) {
                  Grads grads(saved.size());
                  for (size_t k = 0; k < saved.size(); ++k)
                    if (wanted[k]) grads[k] = gradient(e, saved, dy, k);
                  return grads;
                });
}

std::string explain_einsum(const std::string& expression) {
  const Expression e = parse(expression);
  const auto at = [](const std::string& name, const std::string& letters) {
    std::string text = name;
    for (const char letter : letters) text += cat("[", letter, "]");
    return text;
  };
  const bool sums = e.all.size() > e.out.size();
  std::string text, indent, product;
  for (const char letter : e.out) {
    text += cat(indent, "for ", letter, ":\n");
    indent += "  ";
  }
  if (sums) text += indent + at("y", e.out) + " = 0\n";
  for (const char letter : e.all) {
    if (has_letter(e.out, letter)) continue;
    text += cat(indent, "for ", letter, ":\n");
    indent += "  ";
  }
  for (size_t k = 0; k < e.terms.size(); ++k)
    product += (k ? " * " : "") + at(std::string(1, char('a' + k)), e.terms[k]);
  return cat(text, indent, at("y", e.out), sums ? " += " : " = ", product, "\n");
}

// Shapes alone do not show which axes are summed over.
static const AddWork work("einsum", [](const RecordedOp& op) -> OpWork {
  fail(Exit::usage, op.path, ": einsum cannot state its work; write it as matmul and permute");
});

// ---- specs

static void add_spec(const char* expression, const std::vector<Shapes>& cases,
                     const std::vector<Shapes>& rejects = {}) {
  AddOp({.name = "einsum",
         .math = "product of shared letters, sum over dropped ones",
         .cases = cases,
         .run = [expression](const Inputs& in) { return einsum(expression, in); },
         .rejects = rejects,
         .variant = expression});
}
static const bool specs = [] {
  add_spec("ij,jk->ki", {{{2, 3}, {3, 4}}}, {{{2, 3}, {4, 2}}, {{2}, {2, 3}}});
  add_spec("ij,jk->ijk", {{{2, 3}, {3, 4}}});
  add_spec("i,i->", {{{5}, {5}}});
  add_spec("ijk,lj->k", {{{2, 3, 4}, {2, 3}}});
  add_spec("nchw,oc->nohw", {{{2, 3, 4, 5}, {2, 3}}});
  return true;
}();

}  // namespace bellows
