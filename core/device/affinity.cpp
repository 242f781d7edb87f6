#include "core/device/affinity.h"
#include <linux/mempolicy.h>
#include <omp.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <map>
#include "core/base/check.h"
#include "core/base/trace.h"
#include "core/device/workers.h"

namespace bellows {

namespace fs = std::filesystem;

// ---- sets of cores in the system's format

// Consecutive cpu_set_t form one set, of 8192 processors, the most that Linux can have.
using CpuSet = std::array<cpu_set_t, 8>;

// Returns the cores that this thread may use; {0} if the system does not report them.
static std::vector<int> cores_of_thread() {
  CpuSet set{};
  if (sched_getaffinity(0, sizeof set, set.data()) != 0) return {0};
  std::vector<int> cores;
  for (int cpu = 0; cpu < int(8 * sizeof set); ++cpu)
    if (CPU_ISSET_S(cpu, sizeof set, set.data())) cores.push_back(cpu);
  return cores;
}

// Moves this thread to these cores. Returns false if they have gone offline.
static bool run_on(const std::vector<int>& cores) {
  CpuSet set{};
  for (const int cpu : cores) CPU_SET_S(cpu, sizeof set, set.data());
  return sched_setaffinity(0, sizeof set, set.data()) == 0;
}

// Calls place(thread) on each thread of the OpenMP team, and on workers when they start. Returns
// how often it returned true on the team.
static int place_threads(const std::function<bool(int thread)>& place) {
  int placed = 0;
#pragma omp parallel reduction(+ : placed)
  placed += place(omp_get_thread_num());
  restart_workers(place);
  return placed;
}

namespace {
struct Process {
  const std::vector<int> started = cores_of_thread();
  std::vector<int> cores = started;
  bool placed = false;
};
}  // namespace
static Process& process() {
  static Process all;
  return all;
}

std::vector<int> process_cores() { return process().cores; }

// ---- memory nodes

// Sets the policy of this thread and of threads that it creates; -1 restores the default.
// Preferred, not bound: a process bound to a full node would be killed while other nodes have room.
// An unknown node is refused by the system and changes nothing.
static void prefer_memory_of(int node) {
  unsigned long mask[16] = {};
  constexpr int kBits = 8 * sizeof(unsigned long);
  if (node >= 0) mask[node / kBits % 16] |= 1ul << (node % kBits);
  syscall(SYS_set_mempolicy, node < 0 ? MPOL_DEFAULT : MPOL_PREFERRED, node < 0 ? nullptr : mask,
          16 * kBits);
}

int bind_to_node(int local_rank, const fs::path& sys) {
  std::map<int, std::vector<int>> by_node;
  for (const Core& core : cores_of(process().started, sys)) by_node[core.node].push_back(core.cpu);
  if (by_node.size() < 2) return -1;
  const auto& [node, cores] = *std::next(by_node.begin(), local_rank % int(by_node.size()));
  process().cores = cores;
  process().placed = true;
  const int moved = place_threads([node = node](int) {
    prefer_memory_of(node);
    return run_on(process().cores);
  });
  if (moved > 0) trace::count<"cpu.node_bound">();
  return node;
}

// ---- cores

void pin_threads(Pinning pinning, const std::vector<int>& cores) {
  const std::vector<int>& allowed = process().cores;
  std::vector<int> order = pinning == Pinning::list ? cores : placement(cores_of(allowed), pinning);
  if (order.empty()) order = allowed;
  for (const int cpu : order)
    CHECK(std::ranges::count(allowed, cpu), "threads.cores: core ", cpu,
          " is not allowed to this process");
  process().placed = true;
  trace::count<"cpu.core_pinning">(place_threads(
      [order](int thread) { return run_on({order[static_cast<size_t>(thread) % order.size()]}); }));
}

void unpin_thread() {
  if (process().placed) run_on(process().cores);
}

void unpin_threads() {
  if (!process().placed) return;
  process().cores = process().started;
  place_threads([](int) {
    prefer_memory_of(-1);
    return run_on(process().cores);
  });
  process().placed = false;
}

int64_t migrations() {
  int64_t all = 0;
  bool known = false;
  std::error_code none;
  for (fs::directory_iterator task("/proc/self/task", none), end; task != end;
       task.increment(none)) {
    const std::string moves = value_in(task->path() / "sched", "se.nr_migrations");
    if (moves.empty()) continue;
    known = true;
    all += std::stoll(moves);
  }
  return known ? all : -1;
}

}  // namespace bellows
