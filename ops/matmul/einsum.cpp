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

bool has_letter(const std::string& letters, char letter) {
  return letters.find(letter) != std::string::npos;
}

struct Expression {
  std::vector<std::string> terms;  // one per input
  std::string out;
  std::string summed;  // letters missing in the output, in order of appearance
};

Expression parse(const std::string& text) {
  const auto refuse = [&](const auto&... why) {
    fail(Exit::usage, "einsum '", text, "': ", why...);
  };
  std::string letters;
  std::ranges::copy_if(text, std::back_inserter(letters), [](char c) { return c != ' '; });
  const size_t arrow = letters.find("->");
  if (arrow == std::string::npos) refuse("no '->' before the letters of the output");
  Expression e{{""}, letters.substr(arrow + 2), ""};
  std::string all;
  for (const char letter : letters.substr(0, arrow)) {
    if (letter == ',') {
      e.terms.emplace_back();
    } else {
      e.terms.back() += letter;
      if (!has_letter(all, letter)) all += letter;
    }
  }
  for (const char letter : all + e.out)
    if (!std::isalpha(static_cast<unsigned char>(letter))) refuse("'", letter, "' is not a letter");
  for (const char letter : e.out) {
    if (!has_letter(all, letter)) refuse("the output's letter ", letter, " is in no input");
    if (std::ranges::count(e.out, letter) > 1)
      refuse("the output has the letter ", letter, " twice");
  }
  for (const char letter : all)
    if (!has_letter(e.out, letter)) e.summed += letter;
  return e;
}

using Sizes = std::map<char, int64_t>;

Sizes sizes_of(const std::string& text, const Expression& e, TensorSpan inputs) {
  CHECK(e.terms.size() == inputs.size(), "einsum '", text, "': ", e.terms.size(), " terms for ",
        inputs.size(), " tensors");
  Sizes sizes;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const std::string& term = e.terms[k];
    const Shape& shape = inputs[k].shape();
    CHECK(inputs[k].dtype() == inputs[0].dtype(), "einsum '", text, "': dtypes ", inputs[0].dtype(),
          " and ", inputs[k].dtype());
    CHECK(int(term.size()) == shape.rank(), "einsum '", text, "': term ", term,
          " for a tensor of shape ", shape);
    for (int i = 0; i < shape.rank(); ++i) {
      const int64_t size = sizes.try_emplace(term[i], shape[i]).first->second;
      CHECK(size == shape[i], "einsum '", text, "': letter ", term[i], " is ", size,
            " in one tensor and ", shape[i], " in ", shape);
    }
  }
  return sizes;
}

bool repeats_a_letter(const std::string& letters) {
  return std::ranges::any_of(letters, [&](char c) { return std::ranges::count(letters, c) > 1; });
}

// A tensor, and the letters of its axes, each of which occurs once.
struct Factor {
  std::string letters;
  Tensor t;

  // A letter that `term` has twice becomes one axis, along the diagonal of x.
  Factor(const std::string& term, const Tensor& x) {
    Shape shape;
    Strides strides;
    for (int i = 0; i < x.rank(); ++i) {
      const size_t axis = letters.find(term[i]);
      if (axis != std::string::npos) {
        strides[int(axis)] += x.strides()[i];
      } else {
        letters += term[i];
        shape.push_back(x.dim(i));
        strides.push_back(x.strides()[i]);
      }
    }
    t = x.view(shape, strides, x.offset());
  }

  int64_t size_of(char letter) const { return t.dim(int(letters.find(letter))); }

  // Sums over the letters that are not in `wanted`.
  Factor summed_to(const std::string& wanted) const {
    std::string left;
    Shape kept = t.shape(), shape;
    for (int i = 0; i < t.rank(); ++i) {
      if (has_letter(wanted, letters[i])) {
        left += letters[i];
        shape.push_back(t.dim(i));
      } else {
        kept[i] = 1;
      }
    }
    return left == letters ? *this : Factor(left, kernels::sum(t, kept, 1).view_as(shape));
  }

  // Returns t with one axis for each of these groups of its letters; copies t if it must.
  Tensor matrices(const std::string& batch, const std::string& rows,
                  const std::string& columns) const {
    Shape order, shape;
    for (const std::string* group : {&batch, &rows, &columns}) {
      shape.push_back(1);
      for (const char letter : *group) {
        const int axis = int(letters.find(letter));
        order.push_back(axis);
        shape[-1] *= t.dim(axis);
      }
    }
    return reshape(permute(t, order), shape);
  }
};

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

// One or two terms. y may have any strides, and share the storage of a single input. Letters of
// `out` alone, which only gradients have, get stride 0.
Tensor computed(TensorSpan inputs, const std::vector<std::string>& terms, const std::string& out,
                const Shape& shape) {
  if (repeats_a_letter(out)) {  // the gradient of a diagonal
    const Tensor y = full(shape, 0, inputs[0]);
    const Factor diagonal(out, y);
    copy_into(diagonal.t, computed(inputs, terms, diagonal.letters, diagonal.t.shape()));
    return y;
  }
  const Factor a(terms[0], inputs[0]);
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
  std::vector<Tensor> factors{dy};
  std::vector<std::string> terms{e.out};
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (k == of) continue;
    factors.push_back(inputs[k]());
    terms.push_back(e.terms[k]);
  }
  return computed(factors, terms, e.terms[of], inputs[of]().shape());
}

// Replaces the first two terms by their product, with the letters that y or other terms have.
static Tensor einsum_of_many(const std::string& text, const Expression& e, TensorSpan inputs) {
  std::string needed = e.out, kept, rest;
  for (size_t k = 2; k < inputs.size(); ++k) {
    needed += e.terms[k];
    rest += "," + e.terms[k];
  }
  for (const char letter : e.terms[0] + e.terms[1])
    if (has_letter(needed, letter) && !has_letter(kept, letter)) kept += letter;
  CHECK(kept.size() <= kMaxRank, "einsum '", text, "': the product of ", e.terms[0], " and ",
        e.terms[1], " has the ", kept.size(), " axes ", kept, ", but a tensor has at most ",
        kMaxRank, "; order the terms so that products of the first ones have fewer");
  Tensors factors{einsum(cat(e.terms[0], ",", e.terms[1], "->", kept), inputs.first(2))};
  factors.insert(factors.end(), inputs.begin() + 2, inputs.end());
  return einsum(cat(kept, rest, "->", e.out), factors);
}

Tensor einsum(const std::string& expression, TensorSpan inputs) {
  const Expression e = parse(expression);
  const Sizes sizes = sizes_of(expression, e, inputs);
  if (inputs.size() > 2) return einsum_of_many(expression, e, inputs);
  Shape shape;
  for (const char letter : e.out) shape.push_back(sizes.at(letter));
  const Tensor terms = computed(inputs, e.terms, e.out, shape);
  const Tensor y = inputs.size() == 1 ? clone(terms) : contiguous(terms);
  if (!will_record(inputs)) return y;
  std::vector<Saved> saved;
  std::vector<bool> wanted;
  for (const Tensor& input : inputs) {
    saved.emplace_back(input);
    wanted.push_back(needs_grad(input));
  }
  return record("einsum", y, inputs, [e, saved = std::move(saved), wanted](const Tensor& dy) {
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
  std::string text, indent, product;
  const auto loop = [&](char letter) {
    text += cat(indent, "for ", letter, ":\n");
    indent += "  ";
  };
  for (size_t k = 0; k < e.terms.size(); ++k)
    product += (k ? " * " : "") + at(std::string(1, char('a' + k)), e.terms[k]);
  for (const char letter : e.out) loop(letter);
  if (e.summed.empty()) return text + indent + at("y", e.out) + " = " + product + "\n";
  text += indent + at("y", e.out) + " = 0\n";
  for (const char letter : e.summed) loop(letter);
  return text + indent + at("y", e.out) + " += " + product + "\n";
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
  add_spec("ii->i", {{{3, 3}}}, {{{3, 4}}});
  add_spec("ijk,lj->k", {{{2, 3, 4}, {2, 3}}});
  add_spec("nchw,oc->nohw", {{{2, 3, 4, 5}, {2, 3}}});
  add_spec("a,b,c->cab", {{{2}, {3}, {4}}});
  add_spec("ii,ij->j", {{{3, 3}, {3, 4}}});
  add_spec("ab,bc,cbd,d->ad", {{{2, 3}, {3, 4}, {4, 3, 5}, {5}}});
  return true;
}();

}  // namespace bellows
