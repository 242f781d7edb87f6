#include <fmt/format.h>
#include <omp.h>
#include <unistd.h>
#include <cstdlib>
#include "core/base/words.h"
#include "core/device/device.h"
#include "core/device/threads.h"
#include "core/device/topology.h"
#include "labs/doctor/doctor.h"
#include "trainer/log/system.h"
#include "trainer/state/run_record.h"
#include "trainer/verbs/tables.h"

namespace bellows {

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
  // Without OMP_NUM_THREADS the pool has one thread per allowed core (core/device/threads.h).
  m.threads = std::getenv("OMP_NUM_THREADS") ? omp_get_max_threads() : m.cores;
  m.other_trainers = other_trainers();
  getloadavg(&m.load, 1);
  m.available_bytes = static_cast<int64_t>(api_of(Device::cpu).available());
  for (const auto& [name, value] : m.environment["variables"].items()) m.variables[name] = value;
  m.cuda = cuda_report();
  m.cuda_libraries = cuda_libraries();
  for (const Gpu& gpu : m.cuda.gpus) m.gpu_nodes.push_back(node_of_pci(gpu.pci));
  m.optimized = kOptimized;
  return m;
}

static std::string gib(int64_t bytes) {
  return fmt::format("{:.1f} GiB", double(bytes) / (1 << 30));
}

static std::string version(const Machine& m, const char* key) {
  return plain(m.environment["versions"][key]);
}

static std::string cpu(const Machine& m) {
  std::vector<std::string> units;
  for (const Json& unit : m.environment["vector_units"])
    for (const char* shown : {"avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16"})
      if (unit == shown) units.emplace_back(shown);
  return plain(m.environment["cpu"]) + ": " + joined(units, "no AVX2");
}

static std::string topology(const Machine& m) {
  const Topology& t = m.topology;
  std::string text =
      cat(count_of(t.sockets, "socket"), ", ", count_of(t.cores, "core"), ", ",
          count_of(t.cpus, "CPU"), ", ", count_of(int64_t(t.nodes.size()), "NUMA node"));
  for (const NumaNode& node : t.nodes)
    text += cat("; node ", node.id, ": ", cpu_list(node.cpus),
                node.memory_bytes ? ", " + gib(node.memory_bytes) : "");
  return text;
}

static std::string memory(const Machine& m) {
  return cat(gib(m.environment["memory_bytes"].get<int64_t>()), ", ", gib(m.available_bytes),
             " available; allocator: ",
             joined(libraries_named(kAllocator, m.libraries), "malloc of the C library"));
}

static std::string blas(const Machine& m) {
  const std::string onednn = version(m, "onednn");
  return cat(onednn.find('.') == std::string::npos ? "" : "oneDNN " + onednn + ", ", "Eigen ",
             version(m, "eigen"),
             "; loaded beside them: ", joined(libraries_named(kBlas, m.libraries), "no BLAS"));
}

static std::string software(const Machine& m) {
  const std::string compiler = version(m, "compiler");
  return cat("bellows ", version(m, "bellows"), ", ",
             std::isdigit(static_cast<unsigned char>(compiler[0])) ? "g++ " : "", compiler,
             ", OpenMP ", version(m, "openmp"), ", ", plain(m.environment["kernel"]));
}

static std::string cuda(const Machine& m) {
  const CudaReport& r = m.cuda;
  const std::string driver =
      r.driver ? cat("driver ", r.driver_release, r.driver_release.empty() ? "" : ", ",
                     "up to CUDA ", cuda_version(r.driver))
               : "no driver";
  if (r.code.runtime == 0) return driver + "; this binary has no CUDA code";
  std::string text = cat(driver, "; runtime ", cuda_version(r.code.runtime), " with ",
                         architectures_text(r.code.architectures));
  for (const auto& [name, number] : m.cuda_libraries) text += cat(", ", name, " ", number);
  return text;
}

static std::string gpu(const Machine& m, size_t i) {
  const Gpu& g = m.cuda.gpus[i];
  const int node = m.gpu_nodes[i];
  return cat(g.name, ", sm_", g.arch, ", ", gib(g.memory_bytes), ", ", g.multiprocessors, " SMs, ",
             g.pci, node >= 0 ? cat(", NUMA node ", node) : "");
}

std::string describe(const Machine& m) {
  Names set;
  for (const auto& [name, value] : m.variables) set.push_back(cat(name, "=", value));
  const auto wanted = m.variables.find("OMP_NUM_THREADS");
  std::vector<TableRow> rows = {
      {"cpu", cpu(m)},
      {"topology", topology(m)},
      {"cores", fmt::format("{} allowed: CPUs {}, {}; load {:.2f}", m.cores, cpu_list(m.affinity),
                            m.quota ? cat("quota of ", m.quota) : "no quota", m.load)},
      {"threads",
       cat(m.threads, " of OpenMP (", joined(libraries_named(kOpenmp, m.libraries), "built in"),
           "), OMP_NUM_THREADS",
           wanted == m.variables.end() ? " is not set" : "=" + wanted->second)},
      {"memory", memory(m)},
      {"blas", blas(m)},
      {"software", software(m)},
      {"variables", joined(set, "none that matters is set")},
      {"cuda", cuda(m)}};
  for (size_t i = 0; i < m.cuda.gpus.size(); ++i) rows.push_back({cat("gpu ", i), gpu(m, i)});
  return aligned(rows);
}

}  // namespace bellows
