// SharedMemory: memory through which the ranks of one machine exchange values, without the network.
#pragma once
#include <functional>
#include <memory>
#include <vector>
#include "core/base/file.h"
#include "dist/rendezvous/rendezvous.h"

namespace bellows {

// Memory that all ranks of a group map. Each rank has a ring of slots in it, which only this rank
// writes. A message travels in chunks with consecutive numbers, equal on all ranks: a rank copies
// its own chunk into slot (number % slots), waits until all have done so, and reads theirs. A slot
// is free again once all ranks have read it. So nothing is copied more than once, and a rank whose
// chunks are in their slots may compute, while the others read.
//
// The memory has no name, so nothing is left over when ranks are killed. A wait spins for a moment,
// then sleeps (futex). Counter: dist.shared_bytes (copied into slots).
class SharedMemory {
 public:
  // Maps memory that all ranks share. Returns null on all ranks if one of them is not `willing`,
  // belongs to another user, or is on another machine. A network or PID namespace of its own counts
  // as a machine, because its link may be limited on purpose. `prefix` begins the names of keys in
  // the store. All ranks must call join(). Throws Error, exit 7, if a rank does not call it in
  // time, or if rank 0 names anything but sealed memory of the right size.
  static std::unique_ptr<SharedMemory> join(const Ranks& ranks, Store& store,
                                            const std::string& prefix, Timeout timeout,
                                            bool willing);
  ~SharedMemory();
  SharedMemory(SharedMemory&&) = delete;

  // One chunk of each rank, by rank.
  using Chunks = std::vector<const std::byte*>;
  // Receives the chunks at `offset` of a message. If a rank offers nothing, its chunk is garbage.
  using Read = std::function<void(size_t offset, size_t bytes, const Chunks& chunks)>;

  // A rank's part in a collective.
  struct Message {
    const std::byte* mine = nullptr;  // values that this rank offers; null: none
    size_t bytes = 0;                 // size of each rank's values
    Read read = {};
    uint32_t first = 0;  // number of the first chunk
  };

  // Numbers the chunks of a message, which all ranks start in the same order, and copies them into
  // free slots, if those of all earlier messages are there. Returns true if the whole message is in
  // slots; the other ranks then need nothing more from this rank.
  bool start(Message& message);
  // Puts the remaining chunks, and reads those of all ranks in order. Earlier messages must be
  // finished. One thread at a time may finish, while another starts messages. Throws Error, exit 7,
  // after the timeout, after close() of any rank, or if the messages of the ranks differ in size.
  void finish(const Message& message, Timeout timeout);
  // Makes finish() throw, now and later, here and on the other ranks.
  void close();

 private:
  struct Layout;
  SharedMemory(void* memory, const Ranks& ranks);
  std::byte* slot(int rank, uint32_t number) const;
  bool put(const Message& message);
  bool all_put(const Message& message, uint32_t number) const;
  void ring_bell();
  template <class Ready> void wait(std::chrono::steady_clock::time_point end, const Ready& ready);

  Layout& shared_;
  const int rank_, world_;
  uint32_t numbered_;  // number of the next message's first chunk
};

}  // namespace bellows
