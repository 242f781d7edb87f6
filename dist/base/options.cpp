#include "dist/base/options.h"
#include "core/config/visitor.h"

namespace bellows {

void visit(Visitor& v, DistOptions& o) {
  v.choice("backend", o.backend, "how the ranks talk to each other");
  v("timeout_s", o.timeout_s, "for a collective or the rendezvous, then exit 7",
    {.min = 0.1, .max = 86400});
  v("store_port", o.store_port, "TCP port of rank 0's store; 0: as the launcher says",
    {.min = 0, .max = 65535});
  v("bucket_mb", o.bucket_mb, "capacity of a gradient bucket in MiB", {.min = 0.001, .max = 4096})
      .also({"bucket_cap_mb"});
  v("first_bucket_mb", o.first_bucket_mb, "capacity of the first bucket, which leaves earliest",
    {.min = 0.001, .max = 4096});
  v("ddp", o.ddp, "all ranks update; off: only rank 0 (dp)");
  v("bucketed", o.bucketed, "one collective per bucket, not per gradient");
  v("overlap", o.overlap, "a bucket leaves during backward, as soon as it is full");
  v("rebuild", o.rebuild, "buckets follow the order in which gradients become ready");
  v("views", o.views, "gradients are views into the buckets");
  v("no_sync", o.no_sync, "only the last micro-batch of an update sends gradients");
  v("compress", o.compress, "f32 gradients travel as bf16");
  v("find_unused", o.find_unused, "name the parameters that got no gradient")
      .also({"find_unused_parameters"});
  v("uneven", o.uneven, {"drop", "pad", "join"},
    "the last samples of an epoch, if too few for a batch of each rank. drop: they are left out; "
    "pad: the first ones of the epoch are added, so that each rank has as many; join: ranks have "
    "fewer, or none")
      .in_a_branch();
  v("flight_recorder", o.flight_recorder,
    "collectives a rank remembers for the report of a failure", {.min = 1, .max = 100000});
  v("check_collectives", o.check_collectives, "compare op, shape and dtype before each (slow)");
}

}  // namespace bellows
