// ArrayDataset: samples that are not images, such as texts and rows of a table, all in memory.
#pragma once
#include "core/tensor/kernel.h"
#include "data/sets/dataset.h"

namespace bellows {

// Inputs and targets of all samples, row after row. Sample i has the rows from offsets[i] to
// offsets[i + 1] of x, and of y if the targets vary too; without offsets it has row i.
struct Arrays {
  // (rows, ...): u8 or i64 for tokens and classes, f32 for values. Not varying: y (N, ...).
  Tensor x, y;
  Tensor offsets = {};  // (N + 1) i64, or undefined if all samples have one shape
  // (N) i64, filled in by ArrayDataset: rows of each sample, and its targets other than -1.
  // Undefined: all samples have one shape, and all of their targets count.
  Tensor lengths = {}, targets = {};

  int64_t size() const { return offsets.defined() ? offsets.numel() - 1 : x.dim(0); }
};

class ArrayDataset : public Dataset {
 public:
  // Fills in arrays.lengths, arrays.targets and the longest length of info. Throws
  // Error(Exit::data), which begins with `origin`, for a class that is not below info.classes.
  ArrayDataset(DatasetInfo info, Arrays arrays, std::string origin);
  int64_t size() const override { return arrays_.size(); }
  const Arrays* arrays() const override { return &arrays_; }
  std::string origin(int64_t) const override { return origin_; }
  Sample at_least(int64_t, const ViewOf&, Scratch&) const override {
    fail(Exit::usage, origin_, ": its samples are not images");
  }

 private:
  Arrays arrays_;
  std::string origin_;
};

// Describes texts of up to `longest` tokens, each of which has a target.
inline DatasetInfo text_info(int64_t longest, int64_t classes) {
  return {.input = {DType::i64, {longest}},
          .target = {DType::i64, {longest}, true},
          .classes = classes,
          .unit = "tokens"};
}

// Collects samples of varying length for an ArrayDataset.
class Sequences {
 public:
  void add(std::span<const int64_t> x, std::span<const int64_t> y);
  Arrays take() const;

 private:
  std::vector<int64_t> x_, y_, offsets_ = {0};
};

// Input of `trainer predict`, for a data set that has no images.
struct GivenInputs {
  const DatasetInfo& info;  // description of the training set
  std::string name;         // name of the file; "-" for standard input
  std::string bytes;        // content of the file, or one text
};
// Returns samples, (1, ...) each. A data set registers one of the two under its own name: the first
// takes files, the second texts. Throws Error(Exit::data) for input that the set would refuse.
using MakeInputs = std::vector<Tensor>(const GivenInputs& given);
using EncodeText = Tensor(const GivenInputs& given);
// Returns a text as tokens, (1, T) i64: by class names of one character, else as bytes.
Tensor tokens_of(const NoOptions&, const GivenInputs& given);

// Calls fn(To(), From()) with the types of a batch's elements and of its samples'.
template <class Fn> void visit_rows(const Tensor& out, const Tensor& flat, const Fn& fn) {
  const auto from = [&]<class To>(To to) {
    flat.dtype() == DType::u8 ? fn(to, uint8_t()) : fn(to, To());
  };
  out.dtype() == DType::i64 ? from(int64_t()) : from(float());
}

namespace kernels {
// Writes the rows of sample samples[b] to out[b], converted, and `fill` after them.
//
//   out      (B, rows, ...), or (B, ...) without offsets; i64 or f32, contiguous
//   flat     (rows, ...), u8 or the dtype of out, contiguous
//   offsets  (N + 1) i64, or undefined: a sample is one row
//   samples  (B) i64
inline constinit Kernel<void(const Tensor& out, const Tensor& flat, const Tensor& offsets,
                             const Tensor& samples, double fill)>
    collate{"collate"};
}  // namespace kernels

}  // namespace bellows
