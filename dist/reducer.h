// Reducer: averages gradients over the ranks of a ProcessGroup, like PyTorch's
// DistributedDataParallel. So several ranks train the parameters of one rank with the joint batch,
// up to the order of additions. Two ranks train the same bits as one rank that accumulates their
// two batches, if it has as many threads as each of them.
#pragma once
#include <string>
#include <vector>
#include "core/base/scoped.h"
#include "core/tensor/step_state.h"
#include "core/tensor/tensor.h"
#include "dist/buckets.h"
#include "dist/groups/process_group.h"

namespace bellows {

// Adds bytes that rank 0 sends to or receives from each of the other ranks to the counter
// dist.root_bytes. Call on every rank; rank 0 counts.
void count_root_bytes(const ProcessGroup& group, size_t bytes);

// Gradients travel in buckets (dist/buckets.h), which leave in ascending order on every rank. With
// options.overlap a bucket leaves during backward: as soon as its last gradient is final and the
// bucket before it has left. In a world of one rank there are no hooks, copies or waits, except
// with nccl; only missing gradients are set to zero. With nccl the streams wait for buckets, not
// the host, so a graph can capture an update after the first one. Without options.ddp (dp),
// gradients go to rank 0, which updates alone, as the first device of PyTorch's DataParallel does.
// That mode is here for comparison. For the compute thread only.
//
// Counters: dist.buckets (sent), dist.bucketed_grads (gradients sent in a bucket with others),
// dist.early_buckets (sent before wait()), dist.view_grads (gradients stored in their bucket),
// dist.grad_copy_bytes (copied into buckets and back), dist.compressed_bytes (sent as bf16),
// dist.skipped_allreduces (buckets that no_sync() kept back), dist.unused_gradients (parameters
// that backward did not reach in an update), dist.rebuilds, and dist.exposed_wait_ns (wall time
// that the compute thread spent waiting for buckets, or, without options.ddp, for the parameters).
class Reducer {
 public:
  // Broadcasts parameters, which must be leaves, and buffers from rank 0. All ranks pass the same
  // names, shapes and dtypes in the same order. Buckets begin with the reverse of that order. The
  // group must outlive this object. All members throw as the group does (exit 7).
  Reducer(ProcessGroup& group, const DistOptions& options, const NamedTensors& parameters,
          const NamedTensors& buffers);
  ~Reducer();
  Reducer(Reducer&&) = delete;

  // Treatment of the gradients of a backward pass.
  enum class Pass {
    send,  // average the gradients over the ranks
    hold,  // sum the gradients until a later pass of the update sends the sums
    test,  // compute the gradients for this process alone, which drops them
  };
  using PassScope = Scoped<Pass>;
  // Begins a micro-batch of an update; `on` for all except the last. While the result lives,
  // backward only accumulates gradients, like no_sync() in PyTorch. Without options.no_sync each
  // micro-batch sends. The sum so far is then averaged again with the new gradients, which does not
  // change it: it is equal on all ranks.
  [[nodiscard]] PassScope no_sync(bool on);
  // Call before a backward pass whose gradients are dropped, as in a dry run.
  [[nodiscard]] PassScope pause() { return {pass_, Pass::test}; }

  // Call after the last backward of an update. Returns true if this rank updates: then every
  // parameter has a gradient, the mean over the ranks, and work on the current stream sees it. A
  // rank contributes zeros for each parameter that its backward did not reach, also in a world of
  // one. So, unlike in PyTorch, weight decay and momentum act on a parameter that is never reached.
  // To skip such a parameter, a rank would need one more collective to learn whether another rank
  // reached it. With options.rebuild, the first call also rebuilds the buckets in the order in
  // which rank 0's gradients became ready.
  bool wait();
  // Call after the optimizer's step, on all ranks. Without options.ddp, rank 0 sends its parameters
  // and its state.
  void end_update(DeviceStepState& state);

  // Returns the log lines since the last call. With options.find_unused they name each parameter
  // that backward did not reach, once.
  std::vector<std::string> take_messages() { return std::exchange(messages_, {}); }

 private:
  struct Parameter {
    std::string name;
    Tensor leaf;
    Tensor place = {};       // the gradient's view in its bucket
    size_t bucket = 0;       // index of its bucket
    bool ready = false;      // its gradient is ready in this round of buckets
    bool reached = false;    // a backward pass of this update reached it
    bool recorded = false;   // its index is in ready_order_
    bool mentioned = false;  // a message has named it
  };
  struct Bucket {
    std::string name;
    std::vector<size_t> members;  // indices of parameters
    bool in_place;                // its only gradient travels from its own memory, without views
    size_t missing;               // gradients that are not ready
    Tensor values;                // rank 1
    Tensor wire = {};             // the values in bf16; undefined: not compressed
    Work work = {};               // the collective in flight
  };

  void make_buckets();
  void ready(size_t parameter);
  void collect(Parameter& p, Bucket& bucket);
  void send(Bucket& bucket);
  void receive(Bucket& bucket);
  void finish_round();
  // True in a world of one, except with nccl, which runs collectives there as well.
  bool alone() const { return group_.world() == 1 && !group_.on_streams(); }
  void fill_missing();
  void note_unused();
  void return_gradients();
  void rebuild();

  ProcessGroup& group_;
  const DistOptions options_;
  const bool dp_;  // without options.ddp
  std::vector<Parameter> parameters_;
  std::vector<size_t> order_;        // order of parameters in buckets
  std::vector<size_t> ready_order_;  // order of readiness in the first update
  std::vector<Bucket> buckets_;      // empty in a world of one
  size_t next_ = 0;                  // bucket that leaves next
  bool round_open_ = false;          // a micro-batch has begun, and its buckets are not awaited yet
  bool rebuilt_ = false;
  Pass pass_ = Pass::send;
  std::vector<std::string> messages_;
};

}  // namespace bellows
