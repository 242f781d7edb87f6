// The loop nest of an einsum with the strides of its tensors, shared by its kernels.
#pragma once
#include <span>
#include <string>
#include <vector>
#include "core/tensor/tensor.h"

namespace bellows {

inline bool has_letter(const std::string& letters, char letter) {
  return letters.find(letter) != std::string::npos;
}

struct EinsumLoop {
  int64_t size = 1;
  std::vector<int64_t> steps;  // in y, then in each input, when the letter's index grows by one
};

inline int64_t iterations(std::span<const EinsumLoop> loops) {
  int64_t n = 1;
  for (const EinsumLoop& loop : loops) n *= loop.size;
  return n;
}

// Adds the offsets of iteration i of these loops, the first one innermost, to `at`, which has one
// offset for each tensor.
template <class Loop>
HD void advance(const Loop* loops, int n_loops, int64_t i, int64_t* at, int n_tensors) {
  for (int k = 0; k < n_loops; ++k) {
    for (int t = 0; t < n_tensors; ++t) at[t] += i % loops[k].size * loops[k].steps[t];
    i /= loops[k].size;
  }
}

struct EinsumNest {
  std::vector<EinsumLoop> out, summed;
  int64_t elements() const { return iterations(out); }  // computed elements of y; the rest is 0
};

inline EinsumLoop loop_over(char letter, std::span<const std::string> terms,
                            std::span<const Tensor> tensors) {
  EinsumLoop loop{1, std::vector<int64_t>(tensors.size())};
  for (size_t t = 0; t < tensors.size(); ++t)
    for (int i = 0; i < tensors[t].rank(); ++i)
      if (terms[t][i] == letter) {
        loop.size = tensors[t].dim(i);
        loop.steps[t] += tensors[t].strides()[i];
      }
  return loop;
}

// Plans one loop per letter. tensors: y, then the inputs; terms: letters of each input.
inline EinsumNest plan_nest(const std::string& out, std::span<const std::string> terms,
                            std::span<const Tensor> tensors) {
  std::vector<std::string> all{out};
  all.insert(all.end(), terms.begin(), terms.end());
  EinsumNest nest;
  std::string seen;
  for (const std::string& term : all)
    for (const char letter : term)
      if (!has_letter(seen, letter)) {
        seen += letter;
        (has_letter(out, letter) ? nest.out : nest.summed)
            .push_back(loop_over(letter, all, tensors));
      }
  return nest;
}

}  // namespace bellows
