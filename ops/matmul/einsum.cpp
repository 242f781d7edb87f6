#include "ops/matmul/einsum.h"
#include <map>
#include "core/device/parallel.h"
#include "core/tensor/copy.h"
#include "ops/base/op.h"
#include "ops/base/work.h"
#include "ops/matmul/einsum_nest.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce.h"
#include "ops/shape.h"

namespace bellows {

namespace {

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

// ---- two terms as one matrix product

// A tensor, and the letters of its axes, each of which occurs once.
struct Factor {
  std::string letters;
  Tensor t;

  // Sums over the letters that are not in `wanted`.
  Factor summed_to(const std::string& wanted) const {
    Factor sums;
    Shape kept = t.shape(), shape;
    for (int i = 0; i < t.rank(); ++i) {
      if (has_letter(wanted, letters[i])) {
        sums.letters += letters[i];
        shape.push_back(t.dim(i));
      } else {
        kept[i] = 1;
      }
    }
    if (sums.letters == letters) return *this;
    sums.t = kernels::sum(t, kept, 1).view_as(shape);
    return sums;
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
// of a and b alone are contracted. Letters of y alone, which only gradients have, get stride 0. The
// factor that has the first row or column of y provides the rows, so y seldom needs a copy.
Tensor matrix_product(Factor a, Factor b, const std::string& out, const Shape& shape) {
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
  Strides strides = shape;
  for (int i = 0; i < shape.rank(); ++i) strides[i] = 0;
  const std::string axes = batch + rows + columns;
  int64_t step = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    const int axis = int(out.find(axes[i]));
    strides[axis] = step;
    step *= shape[axis];
  }
  return y.view(shape, strides, 0);
}

// y may have any strides.
Tensor computed(TensorSpan inputs, const std::vector<std::string>& terms, const std::string& out,
                const Shape& shape) {
  if (inputs.size() != 2 || repeats_a_letter(terms[0]) || repeats_a_letter(terms[1]) ||
      repeats_a_letter(out))
    return kernels::einsum(inputs, terms, out, shape);
  return matrix_product({terms[0], inputs[0].detach()}, {terms[1], inputs[1].detach()}, out, shape);
}

}  // namespace

// The gradient of an input is also an einsum: of dy and the other inputs, to that input's letters.
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

Tensor einsum(const std::string& expression, TensorSpan inputs) {
  const Expression e = parse(expression);
  const Sizes sizes = sizes_of(expression, e, inputs);
  Shape shape;
  for (const char letter : e.out) shape.push_back(sizes.at(letter));
  const Tensor y = contiguous(computed(inputs, e.terms, e.out, shape));
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
  return true;
}();

// ---- CPU: the loop nest; the elements of y in parallel, and sums in double

static Tensor einsum_cpu(TensorSpan inputs, const std::vector<std::string>& terms,
                         const std::string& out, const Shape& shape) {
  const Tensor y = full(shape, 0, inputs.front());
  Tensors tensors{y};
  tensors.insert(tensors.end(), inputs.begin(), inputs.end());
  const EinsumNest nest = plan_nest(out, terms, tensors);
  const int64_t summed = iterations(nest.summed);
  visit_stored(y.dtype(), [&]<class T>(T) {
    std::vector<T*> data;
    for (const Tensor& t : tensors) data.push_back(t.ptr<T>());
    const int n = int(data.size());
    parallel_for(nest.elements(), 256, [&](int64_t b, int64_t e) {
      std::vector<int64_t> first, at;
      for (int64_t i = b; i < e; ++i) {
        first.assign(n, 0);
        advance(nest.out.data(), int(nest.out.size()), i, first.data(), n);
        double sum = 0;
        for (int64_t term = 0; term < summed; ++term) {
          at = first;
          advance(nest.summed.data(), int(nest.summed.size()), term, at.data(), n);
          double product = 1;
          for (int t = 1; t < n; ++t) product *= double(Acc<T>(data[t][at[t]]));
          sum += product;
        }
        data[0][first[0]] = T(Acc<T>(sum));
      }
    });
  });
  return y;
}
static const bool cpu = kernels::einsum.on(Device::cpu, einsum_cpu);

}  // namespace bellows
