// Files of data sets whose samples are lines, rows or windows of one file, and their split into
// training and test samples.
#pragma once
#include "core/config/visitor.h"
#include "data/sets/dataset.h"

namespace bellows {

struct HeldOut {
  std::string file, test_file;
  int64_t test_every = 10;

  const std::string& of(Split split) const {
    CHECK(!file.empty(), "data: the file to train on is missing");
    return split == Split::test && !test_file.empty() ? test_file : file;
  }
  // Returns those of the file's `n` samples that belong to the split.
  std::vector<int64_t> taken(Split split, int64_t n) const {
    std::vector<int64_t> samples;
    for (int64_t i = 0; i < n; ++i)
      if (!test_file.empty() || (i % test_every == test_every - 1) == (split == Split::test))
        samples.push_back(i);
    return samples;
  }
};
inline void visit(Visitor& v, HeldOut& o) {
  v("file", o.file, "file to train on");
  v("test_file", o.test_file, "file to test on; empty: a part of `file`");
  v("test_every", o.test_every, "without a test_file: each such sample is one to test on",
    {.min = 2, .max = 1e6});
}

}  // namespace bellows
