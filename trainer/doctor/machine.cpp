#include "trainer/doctor/machine.h"
#include <omp.h>
#include <unistd.h>
#include <cstdlib>
#include <fstream>
#include "core/device/affinity.h"
#include "core/device/threads.h"
#include "trainer/log/system.h"

namespace bellows {

// Without OMP_NUM_THREADS the pool has one thread per allowed core (core/device/threads.h).
static int threads_asked_for() {
  return std::getenv("OMP_NUM_THREADS") ? omp_get_max_threads() : allowed_cores();
}

// Processes that run an executable of this one's name. Those of other users are not seen.
static int other_trainers() {
  namespace fs = std::filesystem;
  std::error_code none;
  const fs::path own = fs::read_symlink("/proc/self/exe", none);
  int count = 0;
  for (fs::directory_iterator at("/proc", none), end; at != end; at.increment(none)) {
    const std::string pid = at->path().filename();
    if (pid.find_first_not_of("0123456789") != pid.npos || pid == std::to_string(getpid()))
      continue;
    count += fs::read_symlink(at->path() / "exe", none).filename() == own.filename();
  }
  return count;
}

static double load_average() {
  double minute = 0;
  getloadavg(&minute, 1);
  return minute;
}

static int64_t available_bytes() {
  std::ifstream in("/proc/meminfo");
  for (std::string key, unit; in >> key;) {
    int64_t kilobytes = 0;
    in >> kilobytes;
    if (key == "MemAvailable:") return kilobytes * 1024;
    std::getline(in, unit);
  }
  return 0;
}

static constexpr bool kOptimized =
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    true;
#else
    false;
#endif

Machine this_machine() {
  Machine m;
  m.libraries = loaded_libraries();  // before cuda_libraries() loads more of them
  m.environment = environment();
  m.topology = read_topology();
  m.affinity = process_cores();
  m.quota = quota_cores();
  m.cores = allowed_cores();
  m.threads = threads_asked_for();
  m.other_trainers = other_trainers();
  m.load = load_average();
  m.available_bytes = available_bytes();
  for (const auto& [name, value] : m.environment["variables"].items()) m.variables[name] = value;
  m.cuda = cuda_report();
  m.cuda_libraries = cuda_libraries();
  for (const Gpu& gpu : m.cuda.gpus) m.gpu_nodes.push_back(node_of_pci(gpu.pci));
  m.optimized = kOptimized;
  return m;
}

}  // namespace bellows
