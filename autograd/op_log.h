// OpLog: lists the ops that this thread records while the object lives, to count their work
// (ops/base/work.h) and for profiles.
#pragma once
#include <string>
#include <vector>
#include "core/base/dtype.h"
#include "core/tensor/shape.h"

namespace bellows {

struct Operand {
  Shape shape;
  DType dtype = DType::f32;
  bool defined = false, leaf = false;
  const void* grad = nullptr;  // identifies its gradient; null if it needs none
  const char* layout = "";     // "nhwc"; "" unless it is (N, C, H, W)
  double bytes() const { return defined ? double(shape.numel()) * double(size_of(dtype)) : 0; }
};

struct RecordedOp {
  std::string name, path;  // path: the module's
  Shape y;
  std::vector<Operand> inputs;  // in the order of record()
  const void* grad = nullptr;   // identifies the gradient of y, as in Operand
  int64_t end_ns = 0;           // when its forward was done, by trace::now_ns()
  DType dtype() const { return inputs.at(0).dtype; }
};

class OpLog {
 public:
  OpLog();
  ~OpLog();
  OpLog(OpLog&&) = delete;
  std::vector<RecordedOp> ops;  // in the order of the forward pass

 private:
  OpLog* const outer_;
};

}  // namespace bellows
