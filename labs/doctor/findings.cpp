#include <fmt/format.h>
#include "core/base/check.h"
#include "core/base/words.h"
#include "labs/doctor/doctor.h"

namespace bellows {

static std::string variable(const Machine& m, const std::string& name) {
  const auto found = m.variables.find(name);
  return found == m.variables.end() ? "" : found->second;
}

// Reports a driver or GPU that this binary cannot use. A machine without driver and GPU is fine,
// and so is a build without CUDA code on a machine without GPU.
static void judge_gpu(const Machine& m, Names& found) {
  const bool wanted = m.cuda.driver || !m.cuda.gpus.empty();
  const std::string trouble = wanted ? cuda_trouble(m.cuda) : "";
  if (!trouble.empty() && (m.cuda.code.runtime != 0 || !m.cuda.gpus.empty()))
    found.push_back("the GPU stays at 0 %: " + trouble);
}

static void judge_threads(const Machine& m, Names& found) {
  if (m.threads > m.cores)
    found.push_back(fmt::format(
        "{} OpenMP threads on {} cores: each parallel loop waits for threads that wait for a core "
        "(the toggle thread_budget limits training to {}); type  export OMP_NUM_THREADS={}",
        m.threads, m.cores, m.cores, m.cores));
  const std::string asked = variable(m, "OMP_NUM_THREADS");
  if (!asked.empty() && m.threads < m.cores)
    found.push_back(
        fmt::format("OMP_NUM_THREADS={} leaves {} of {} cores idle; type  unset OMP_NUM_THREADS",
                    asked, m.cores - m.threads, m.cores));
  // The OpenMP runtime binds the main thread to one core when it is loaded. This process then sees
  // only that core.
  const std::string bind = variable(m, "OMP_PROC_BIND");
  if (!bind.empty() && bind != "false" && m.affinity.size() <= 1 && m.topology.cpus != 1)
    found.push_back(cat("OMP_PROC_BIND=", bind, " leaves this process 1 of ", m.topology.cpus,
                        " CPUs; type  unset OMP_PROC_BIND"));
  if (m.other_trainers > 0 && m.cores > 1)
    found.push_back(
        cat(m.other_trainers, " other ", m.other_trainers == 1 ? "process" : "processes",
            " of this program on this machine, each with a thread for every core; start each with  "
            "threads.threads=",
            std::max(1, m.cores / (m.other_trainers + 1))));
}

static void judge_preload(const Machine& m, Names& found) {
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
      return found.push_back(
          cat("LD_PRELOAD names ", item, ", which is not loaded; type  unset LD_PRELOAD"));
  }
}

static void judge_libraries(const Machine& m, Names& found) {
  const Names runtimes = libraries_named(kOpenmp, m.libraries);
  if (runtimes.size() > 1)
    found.push_back(cat(runtimes.size(), " OpenMP runtimes in one process (", joined(runtimes),
                        "): each starts its own threads; ",
                        variable(m, "LD_PRELOAD").empty() ? "build everything with one compiler"
                                                          : "type  unset LD_PRELOAD"));
  judge_preload(m, found);
  if (m.environment["versions"]["onednn"] == "not in this build")
    found.emplace_back(
        "this build has no oneDNN, so convolutions are plain loops; configure with  "
        "-DBELLOWS_ONEDNN=ON");
  for (const char* name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"})
    if (const std::string isa = variable(m, name); !isa.empty())
      return found.push_back(
          cat(name, "=", isa, " keeps oneDNN from newer vector units; type  unset ", name));
}

std::vector<std::string> findings(const Machine& m) {
  Names found;
  judge_gpu(m, found);
  judge_threads(m, found);
  judge_libraries(m, found);
  if (m.topology.nodes.size() > 1)
    found.push_back(
        fmt::format("{} NUMA nodes: memory of another node is slower; type  toggles.numa_local=on",
                    m.topology.nodes.size()));
  if (!m.optimized)
    found.emplace_back(
        "this binary is a debug or sanitizer build, which is slow; type  "
        "cmake --preset release && ninja -C build");
  if (m.load > m.topology.cpus)
    found.push_back(fmt::format(
        "load {:.1f} on {} CPUs: other programs use the CPUs, so timings are too long now; see "
        "which with  top -o %CPU",
        m.load, m.topology.cpus));
  return found;
}

}  // namespace bellows
