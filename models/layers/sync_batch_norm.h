// Batch normalization with the statistics of all ranks' batches (model.sync_bn), as
// torch.nn.SyncBatchNorm. It takes part in their collectives, so it is not in ops/. A model with
// batch norms needs it to train on several ranks as on one. Without it, each rank normalizes by its
// own batch, and evaluations and checkpoints take rank 0's running statistics.
#pragma once
#include "dist/groups/process_group.h"
#include "ops/norm/batch_norm.h"

namespace bellows {

// y = batch_norm(x), or relu(batch_norm(x) + residual) if `relu`; `residual` may be undefined. Only
// for training. Each rank passes any number of samples, at least one; x is as for batch_norm(). One
// all_gather of 2 C + 1 values in forward, and one all_reduce of 2 C in backward, each in f64: all
// ranks must run the same layers in the same order. dx is that of the joint batch; dw and db are
// this rank's part, which the reducer averages like other gradients. Counter: norm.synced (forward
// passes). Throws (exit 2) as batch_norm() does, (exit 7) as the group does.
Tensor sync_batch_norm(const Tensor& x, const Tensor& residual, bool relu, const NormLayer& norm,
                       ProcessGroup& group);

}  // namespace bellows
