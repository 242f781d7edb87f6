// Options of training on several ranks: the group `dist` of a plan.
#pragma once
#include <cstdint>
#include <memory>
#include "core/config/choice.h"
#include "data/loader/sampler.h"

namespace bellows {

class ProcessGroup;
struct GroupContext;
using MakeGroup = std::unique_ptr<ProcessGroup>(const GroupContext&);

struct DistOptions {
  Choice<MakeGroup> backend{"auto"};
  double timeout_s = 300;      // limit for each collective and for the rendezvous
  int64_t store_port = 0;      // port of rank 0's store; 0: the launcher's
  double bucket_mb = 25;       // capacity of a gradient bucket, in MiB
  double first_bucket_mb = 1;  // small, so that communication begins early
  bool ddp = false;            // all ranks update; false: rank 0 alone (dist/reducer.h)
  bool bucketed = false;       // false: one collective per gradient
  bool overlap = false;        // buckets leave during backward; false: after it
  bool rebuild = false;        // bucket order follows the order of readiness
  bool views = false;          // gradients are views into the buckets
  bool no_sync = false;        // only the last micro-batch of an update sends
  bool compress = false;       // f32 gradients travel as bf16
  bool find_unused = false;    // report parameters without a gradient
  Uneven uneven = Uneven::pad;
  int64_t flight_recorder = 64;    // collectives kept per rank for the report of a failure
  bool check_collectives = false;  // compare op, shape and dtype over the store before each
};
void visit(Visitor& v, DistOptions& o);

}  // namespace bellows
