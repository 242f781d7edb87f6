// Communicator: interface to a communicator of NCCL that does not include NCCL's headers.
// dist/groups/communicator.cu implements it.
#pragma once
#include "dist/groups/process_group.h"

namespace bellows {

// Queues collectives on its own stream, whose priority is high; the host never waits for them.
// Tensors are contiguous and on the GPU. Errors of NCCL throw Error, exit 7, with NCCL's message.
// One thread queues; any thread may call error() and abort().
class Communicator {
 public:
  // All ranks must destroy the communicator, with nothing queued, unless it was aborted.
  virtual ~Communicator() = default;
  virtual Stream stream() const = 0;
  virtual void all_reduce(const Tensor& t, Reduction reduction) = 0;
  virtual void broadcast(const Tensor& t, int root) = 0;
  virtual void all_gather(const Tensor& mine, const Tensor& all) = 0;
  // Returns the error that NCCL's threads or kernels found, "" if there is none.
  virtual std::string error() = 0;
  // Ends all collectives, queued ones included. Later calls throw.
  virtual void abort() noexcept = 0;
};

// Returns once all ranks are connected. `prefix`: for its keys in the store. `max_ctas`: blocks
// that a collective may occupy; 0: NCCL decides. dist.timeout_s limits connecting, and the host's
// part of each call. Throws Error, exit 2 without libnccl.so.2, exit 7 if a rank does not connect
// in time.
using MakeCommunicator = std::unique_ptr<Communicator>(const GroupContext& group,
                                                       const std::string& prefix, int64_t max_ctas);
inline constinit MakeCommunicator* make_communicator = nullptr;  // null: this build has no NCCL

}  // namespace bellows
