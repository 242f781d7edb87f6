// ProcessGroup: the ranks that train one model together, and their collectives.
#pragma once
#include <memory>
#include "core/config/choice.h"
#include "core/tensor/tensor.h"

namespace bellows {

// All ranks must make the same calls in the same order. One thread at a time.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual int rank() const = 0;
  virtual int world() const = 0;

  // Collectives start here and are done after wait(); do not touch the tensor in between.
  virtual void all_reduce(const Tensor& t) = 0;           // t = sum over ranks
  virtual void broadcast(const Tensor& t, int root) = 0;  // t = t of rank `root`
  // Later work of the current stream sees the results of all collectives so far.
  virtual void wait() = 0;
  virtual void barrier() = 0;  // returns once all ranks have called it
};

struct DistOptions {
  Choice<std::unique_ptr<ProcessGroup>()> backend{"single"};
};
void visit(Visitor& v, DistOptions& o);

}  // namespace bellows
