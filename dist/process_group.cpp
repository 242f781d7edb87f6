#include "dist/process_group.h"
#include "core/config/visitor.h"

namespace bellows {

void visit(Visitor& v, DistOptions& o) {
  v.choice("backend", o.backend, "how the ranks talk to each other");
}

}  // namespace bellows
