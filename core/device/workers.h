// Workers: threads that help their caller with the chunks of a parallel region.
//
// The caller waits for no worker that has not begun. Each thread first takes the chunks of its own
// share of the region, so that data stays in its cache from op to op, then chunks that no other
// thread has begun. So a worker without a core costs nothing until the system runs it, unlike a
// thread of OpenMP, for which every region waits. Libraries use OpenMP's threads, not these.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

namespace bellows {

// The body of a region: call(body, chunk) runs one chunk. Must not throw.
struct ChunkBody {
  const void* body;
  void (*call)(const void* body, int64_t chunk);
};

// Runs each chunk in [0, chunks) once, on this thread and up to threads - 1 workers, and returns
// after the last one. Workers compute with this thread's floating-point modes. Runs everything on
// this thread if another one's region is in progress.
void run_chunks(int64_t chunks, int threads, const ChunkBody& body);

// Makes workers sleep instead of spinning until the next region. Call it before a library starts
// its own threads, which need the cores.
void rest_workers();

// Returns the index of this thread: 1 and up for workers, 0 for all other threads.
int worker_index();
// Returns the number of workers that exist. A region starts those it lacks.
int worker_count();
// System ids of the workers.
std::vector<long> worker_ids();

// Ends all workers. Those that later regions start call on_start(worker_index()) first. Call it
// outside of regions.
void restart_workers(std::function<void(int)> on_start);

}  // namespace bellows
