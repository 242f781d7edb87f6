#include <fmt/format.h>
#include "core/base/check.h"
#include "core/base/words.h"
#include "labs/doctor/doctor.h"

namespace bellows {

static std::string variable(const Machine& m, const std::string& name) {
  const auto found = m.variables.find(name);
  return found == m.variables.end() ? "" : found->second;
}

static std::string too_many_threads(const Machine& m) {
  if (m.threads <= m.cores) return "";
  return fmt::format(
      "{} OpenMP threads on {} cores: each parallel loop waits for threads that wait for a core "
      "(the toggle thread_budget limits training to {}); type  export OMP_NUM_THREADS={}",
      m.threads, m.cores, m.cores, m.cores);
}

static std::string too_few_threads(const Machine& m) {
  const std::string asked = variable(m, "OMP_NUM_THREADS");
  if (asked.empty() || m.threads >= m.cores) return "";
  return fmt::format("OMP_NUM_THREADS={} leaves {} of {} cores idle; type  unset OMP_NUM_THREADS",
                     asked, m.cores - m.threads, m.cores);
}

// The OpenMP runtime binds the main thread to one core when it is loaded. This process then sees
// only that core.
static std::string bound_threads(const Machine& m) {
  const std::string bind = variable(m, "OMP_PROC_BIND");
  if (bind.empty() || bind == "false" || m.affinity.size() > 1 || m.topology.cpus == 1) return "";
  return cat("OMP_PROC_BIND=", bind, " leaves this process 1 of ", m.topology.cpus,
             " CPUs; type  unset OMP_PROC_BIND");
}

static std::string several_runs(const Machine& m) {
  if (m.other_trainers == 0 || m.cores == 1) return "";
  const int share = std::max(1, m.cores / (m.other_trainers + 1));
  return cat(
      m.other_trainers, " other ", m.other_trainers == 1 ? "process" : "processes",
      " of this program on this machine, each with a thread for every core; start each with  "
      "threads.threads=",
      share);
}

static std::string two_openmp_runtimes(const Machine& m) {
  const std::vector<std::string> runtimes = libraries_for(Job::openmp, m.libraries);
  if (runtimes.size() < 2) return "";
  const std::string preload = variable(m, "LD_PRELOAD");
  return cat(runtimes.size(), " OpenMP runtimes in one process (", joined(runtimes),
             "): each starts its own threads; ",
             preload.empty() ? "build everything with one compiler" : "type  unset LD_PRELOAD");
}

static std::string preload_not_loaded(const Machine& m) {
  std::string wanted = variable(m, "LD_PRELOAD");
  for (char& c : wanted) c = c == ':' ? ' ' : c;
  std::istringstream items(wanted);
  for (std::string item; items >> item;) {
    const std::string file = item.substr(item.rfind('/') + 1);
    // A symbolic link is mapped under the name of its target, which is the same up to ".so".
    const std::string stem = cat("/", file.substr(0, file.find(".so")), ".");
    if (std::ranges::none_of(m.libraries, [&](const std::string& path) {
          return path.ends_with(cat("/", file)) || path.find(stem) != path.npos;
        }))
      return cat("LD_PRELOAD names ", item, ", which is not loaded; type  unset LD_PRELOAD");
  }
  return "";
}

static std::string no_onednn(const Machine& m) {
  if (m.environment["versions"]["onednn"] != "not in this build") return "";
  return "this build has no oneDNN, so convolutions are plain loops; configure with  "
         "-DBELLOWS_ONEDNN=ON";
}

static std::string lowered_isa(const Machine& m) {
  for (const char* name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"})
    if (const std::string isa = variable(m, name); !isa.empty())
      return cat(name, "=", isa, " keeps oneDNN from newer vector units; type  unset ", name);
  return "";
}

static std::string busy(const Machine& m) {
  if (m.load <= m.topology.cpus) return "";
  return fmt::format(
      "load {:.1f} on {} CPUs: other programs use the CPUs, so timings are too long now; see which "
      "with  top -o %CPU",
      m.load, m.topology.cpus);
}

static std::string not_optimized(const Machine& m) {
  return m.optimized ? ""
                     : "this binary is a debug or sanitizer build, which is slow; type  "
                       "cmake --preset release && ninja -C build";
}

static std::string several_nodes(const Machine& m) {
  if (m.topology.nodes.size() < 2) return "";
  return fmt::format("{} NUMA nodes: memory of another node is slower; type  toggles.numa_local=on",
                     m.topology.nodes.size());
}

// Reports a driver or GPU that this binary cannot use. A machine without both is fine, and so is a
// build without CUDA code where there is no GPU.
static std::string cuda_unused(const Machine& m) {
  const bool wanted = m.cuda.driver || !m.cuda.gpus.empty();
  const std::string trouble = wanted ? cuda_trouble(m.cuda) : "";
  return trouble.empty() || (m.cuda.code.runtime == 0 && m.cuda.gpus.empty())
             ? ""
             : "the GPU stays at 0 %: " + trouble;
}

std::vector<std::string> findings(const Machine& machine) {
  std::vector<std::string> found;
  for (const auto judge : {cuda_unused, too_many_threads, too_few_threads, bound_threads,
                           several_runs, two_openmp_runtimes, preload_not_loaded, no_onednn,
                           lowered_isa, several_nodes, not_optimized, busy})
    if (const std::string line = judge(machine); !line.empty()) found.push_back(line);
  return found;
}

}  // namespace bellows
