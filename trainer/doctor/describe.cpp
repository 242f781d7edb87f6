#include <fmt/format.h>
#include "core/base/check.h"
#include "core/base/plural.h"
#include "trainer/doctor/machine.h"
#include "trainer/verbs/tables.h"

namespace bellows {

static std::string gib(int64_t bytes) {
  return fmt::format("{:.1f} GiB", double(bytes) / (1 << 30));
}

static std::string plural(int64_t n, const std::string& one) {
  return cat(n, " ", one, n == 1 ? "" : "s");
}

static std::string text_of(const Machine& m, const char* key) {
  return m.environment[key].get<std::string>();
}
static std::string version(const Machine& m, const char* key) {
  const Json& value = m.environment["versions"][key];
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// ---- the CPU

static std::string cpu(const Machine& m) {
  std::vector<std::string> units;
  for (const Json& unit : m.environment["vector_units"]) {
    const std::string name = unit;
    for (const char* shown : {"avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16"})
      if (name == shown) units.push_back(name);
  }
  return text_of(m, "cpu") + ": " + joined(units, "no AVX2");
}

static std::string topology(const Machine& m) {
  const Topology& t = m.topology;
  std::string text = cat(plural(t.sockets, "socket"), ", ", plural(t.cores, "core"), ", ",
                         plural(t.cpus, "CPU"), ", ", plural(int64_t(t.nodes.size()), "NUMA node"));
  for (const NumaNode& node : t.nodes)
    text += cat("; node ", node.id, ": ", cpu_list(node.cpus),
                node.memory_bytes ? ", " + gib(node.memory_bytes) : "");
  return text;
}

static std::string cores(const Machine& m) {
  return fmt::format("{} allowed: CPUs {}, {}; load {:.2f}", m.cores, cpu_list(m.affinity),
                     m.quota ? cat("quota of ", m.quota) : "no quota", m.load);
}

static std::string threads(const Machine& m) {
  const auto set = m.variables.find("OMP_NUM_THREADS");
  return cat(
      m.threads, " of OpenMP (", joined(libraries_for(Job::openmp, m.libraries), "built in"), "), ",
      set == m.variables.end() ? "OMP_NUM_THREADS is not set" : "OMP_NUM_THREADS=" + set->second);
}

static std::string memory(const Machine& m) {
  return cat(gib(m.environment["memory_bytes"].get<int64_t>()), ", ", gib(m.available_bytes),
             " available; allocator: ",
             joined(libraries_for(Job::allocator, m.libraries), "malloc of the C library"));
}

static std::string blas(const Machine& m) {
  const std::string onednn = version(m, "onednn");
  return cat(onednn.find('.') == std::string::npos ? "" : "oneDNN " + onednn + ", ", "Eigen ",
             version(m, "eigen"),
             "; loaded beside them: ", joined(libraries_for(Job::blas, m.libraries), "no BLAS"));
}

static std::string software(const Machine& m) {
  const std::string compiler = version(m, "compiler");
  return cat("bellows ", version(m, "bellows"), ", ",
             std::isdigit(static_cast<unsigned char>(compiler[0])) ? "g++ " : "", compiler,
             ", OpenMP ", version(m, "openmp"), ", ", text_of(m, "kernel"));
}

static std::string variables(const Machine& m) {
  std::vector<std::string> set;
  for (const auto& [name, value] : m.variables) set.push_back(name + "=" + value);
  return joined(set, "none that matters is set");
}

// ---- the GPU

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
  std::vector<TableRow> rows = {
      {"cpu", cpu(m)},           {"topology", topology(m)},   {"cores", cores(m)},
      {"threads", threads(m)},   {"memory", memory(m)},       {"blas", blas(m)},
      {"software", software(m)}, {"variables", variables(m)}, {"cuda", cuda(m)}};
  for (size_t i = 0; i < m.cuda.gpus.size(); ++i) rows.push_back({cat("gpu ", i), gpu(m, i)});
  return aligned(rows);
}

}  // namespace bellows
