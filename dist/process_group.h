// The ranks that train one model together, and what they say to each other.
#pragma once
#include <memory>
#include "core/config/visitor.h"
#include "core/tensor/tensor.h"

namespace bellows {

// Every rank makes the same calls in the same order. One thread at a time.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual int rank() const = 0;
  virtual int world() const = 0;

  // Collectives begin now and are done after wait(): until then nobody touches the tensor.
  virtual void all_reduce(const Tensor& t) = 0;           // t = the sum over ranks
  virtual void broadcast(const Tensor& t, int root) = 0;  // t = that of rank `root`
  // What the current stream does from here on sees their results.
  virtual void wait() = 0;
  virtual void barrier() = 0;  // until every rank has come here
};

struct DistOptions {
  Choice<std::unique_ptr<ProcessGroup>()> backend{"single"};
};
void visit(Visitor& v, DistOptions& o);

}  // namespace bellows
