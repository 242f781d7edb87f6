#include "trainer/log/system.h"
#include <dlfcn.h>
#include <fmt/chrono.h>
#include <omp.h>
#include <png.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <zlib.h>
#include <CLI/Version.hpp>
#include <Eigen/Core>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include "core/base/check.h"
#include "core/base/words.h"
#include "core/device/device.h"
#include "core/device/device_info.h"
#include "core/device/threads.h"
#include "core/device/topology.h"
#include "trainer/state/run_record.h"

namespace bellows {

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string date_text(double wall_seconds) {
  constexpr double kLatest = 253'402'300'799;  // the end of the year 9999
  const auto time = std::time_t(std::clamp(wall_seconds, 0.0, kLatest));
  return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(time));
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 && *name ? name : "localhost";
}

static Json vector_units() {
  Json units = Json::array();
  std::istringstream flags(cpu_info("flags"));
  for (std::string flag; flags >> flag;)
    if (flag.starts_with("avx") || flag.starts_with("amx") || flag == "fma") units.push_back(flag);
  return units;
}

// Version of the library in this process, not of the headers it was built with.
static std::string onednn_version() {
  struct Version {
    int major, minor, patch;
    const char* hash;
  };
  const auto ask = reinterpret_cast<const Version* (*)()>(dlsym(RTLD_DEFAULT, "dnnl_version"));
  if (!ask) return "not in this build";
  const Version& v = *ask();
  return cat(v.major, ".", v.minor, ".", v.patch);
}

static Json versions() {
  return {{"bellows", build::kVersion},
          {"compiler", __VERSION__},
          {"openmp", _OPENMP},
          {"onednn", onednn_version()},
          {"eigen", cat(EIGEN_WORLD_VERSION, ".", EIGEN_MAJOR_VERSION, ".", EIGEN_MINOR_VERSION)},
          {"yaml-cpp", build::kYamlCppVersion},
          {"json", cat(NLOHMANN_JSON_VERSION_MAJOR, ".", NLOHMANN_JSON_VERSION_MINOR, ".",
                       NLOHMANN_JSON_VERSION_PATCH)},
          {"cli11", CLI11_VERSION},
          {"zlib", zlibVersion()},
          {"png", png_get_libpng_ver(nullptr)}};
}

std::string version_text() {
  const std::string commit = build::kCommit;
  const Json libraries = versions();
  std::string text =
      cat("bellows ", build::kVersion, ", commit ", commit.empty() ? "unknown" : commit, "\n");
  for (const auto& [name, version] : libraries.items())
    if (name != "bellows") text += cat("  ", name, " ", plain(version), "\n");
  const int cuda = cuda_report().code.runtime;
  return text + cat("  cuda ", cuda ? cuda_version(cuda) : "not in this build", "\n");
}

static Json variables() {
  Json set = Json::object();
  for (const char* name :
       {"OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT",
        "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "LD_PRELOAD", "CUDA_VISIBLE_DEVICES"})
    if (const char* value = std::getenv(name)) set[name] = value;
  return set;
}

// With a GPU, includes versions of the libraries that a run would load for it.
static Json cuda() {
  const CudaReport report = cuda_report();
  Json gpus = Json::array(), libraries = Json::object();
  for (const Gpu& gpu : report.gpus) gpus.push_back(gpu.name);
  if (!report.gpus.empty())
    for (const auto& [name, version] : cuda_libraries()) libraries[name] = version;
  return {{"runtime", cuda_version(report.code.runtime)},
          {"architectures", report.code.architectures},
          {"supported_by_driver", cuda_version(report.driver)},
          {"driver", report.driver_release},
          {"gpus", gpus},
          {"libraries", libraries}};
}

Libraries loaded_libraries() {
  std::set<std::string> paths;
  std::ifstream in("/proc/self/maps");
  for (std::string line; std::getline(in, line);) {
    const size_t at = line.find('/');
    if (at != std::string::npos && line.find(".so", at) != std::string::npos)
      paths.insert(line.substr(at));
  }
  return {paths.begin(), paths.end()};
}

// A version, a variant ("_minimal") or a wheel's hash ("-a34b3233") may follow the name.
std::vector<std::string> libraries_named(const std::vector<std::string>& names,
                                         const Libraries& loaded) {
  std::vector<std::string> files;
  for (const std::string& path : loaded) {
    const std::string file = path.substr(path.rfind('/') + 1);
    if (std::ranges::any_of(names, [&](const std::string& name) {
          return file.starts_with(name) &&
                 !std::isalnum(static_cast<unsigned char>(file[name.size()]));
        }))
      files.push_back(file);
  }
  return files;
}

Json environment() {
  const Libraries loaded = loaded_libraries();
  utsname system = {};
  uname(&system);
  return {{"host", host_name()},
          {"pid", getpid()},
          {"kernel", cat(system.sysname, " ", system.release)},
          {"cpu", cpu_model()},
          {"vector_units", vector_units()},
          {"cores", allowed_cores()},
          {"threads", omp_get_max_threads()},
          {"memory_bytes", int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE)},
          {"cuda_devices", device_count(Device::cuda)},
          {"cuda_device", chosen_gpu()},
          {"cuda", cuda()},
          {"commit", build::kCommit},
          {"flags", build::kFlags},
          {"openmp_runtime", joined(libraries_named(kOpenmp, loaded), "built in")},
          {"blas_library", joined(libraries_named(kBlas, loaded), "none")},
          {"allocator", joined(libraries_named(kAllocator, loaded), "malloc of the C library")},
          {"versions", versions()},
          {"variables", variables()},
          {"libraries", loaded}};
}

}  // namespace bellows
