#include "core/device/device_info.h"
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include "core/base/library.h"
#include "core/device/device.h"

namespace bellows {

// ---- architectures: "90", "90-real", "90a-virtual", separated by spaces

namespace {
struct Architecture {
  int number = 0;   // 90
  char family = 0;  // 'a': this GPU only, 'f': GPUs of its major number
  bool machine_code = true, ptx = true;
};
}  // namespace

static std::vector<Architecture> parse_architectures(const std::string& list) {
  std::vector<Architecture> all;
  std::istringstream items(list);
  for (std::string item; items >> item;) {
    Architecture a;
    char* end = nullptr;
    a.number = int(std::strtol(item.c_str(), &end, 10));
    if (std::isalpha(static_cast<unsigned char>(*end))) a.family = *end++;
    a.machine_code = !std::string_view(end).starts_with("-virtual");
    a.ptx = !std::string_view(end).starts_with("-real");
    if (a.number > 0) all.push_back(a);
  }
  return all;
}

// Machine code runs on later minor numbers of the same major number, PTX on all later numbers. Code
// for one family runs only within that family.
static bool runs_on(const Architecture& code, int arch) {
  const bool later = code.number <= arch, same_major = code.number / 10 == arch / 10;
  if (code.family == 'a') return code.number == arch;
  if (code.family) return later && same_major;
  return later && (code.ptx || same_major);
}

bool runs_on(const std::string& list, int arch) {
  for (const Architecture& code : parse_architectures(list))
    if (runs_on(code, arch)) return true;
  return false;
}

std::string architectures_text(const std::string& list) {
  std::string text;
  for (const Architecture& a : parse_architectures(list)) {
    const std::string number = a.family ? cat(a.number, a.family) : cat(a.number);
    if (a.machine_code) text += cat(text.empty() ? "" : ", ", "sm_", number);
    if (a.ptx) text += cat(text.empty() ? "" : ", ", "PTX ", number);
  }
  return text.empty() ? "none" : text;
}

std::string cuda_version(int version) { return cat(version / 1000, ".", version % 1000 / 10); }

// ---- libraries, called without their headers

// Formats 91900 as "9.19.0": the encoding of cuDNN, cuBLAS and NCCL.
static std::string dotted(size_t version) {
  return cat(version / 10000, ".", version % 10000 / 100, ".", version % 100);
}

static std::string nccl_version(const Library& nccl) {
  int version = 0;
  return nccl.call("ncclGetVersion", &version) == 0 ? dotted(version) : "";
}

static std::string version_by(const Library& library, const char* function) {
  const auto ask = library.find<size_t()>(function);
  return ask ? dotted(ask()) : "";
}

Versions cuda_libraries() {
  if (cuda_code.runtime == 0) return {};
  const std::string blas = cat("libcublasLt.so.", cuda_code.runtime / 1000);
  Versions found = {{"cuDNN", version_by(Library("libcudnn.so.9"), "cudnnGetVersion")},
                    {"cuBLAS", version_by(Library(blas.c_str()), "cublasLtGetVersion")},
                    {"NCCL", nccl_version(Library("libnccl.so.2"))}};
  std::erase_if(found, [](const auto& library) { return library.second.empty(); });
  return found;
}

// ---- the driver: functions of libcuda return 0 or an error code

static std::string error_text(const Library& driver, int error) {
  const char* text = nullptr;
  driver.call("cuGetErrorString", error, &text);
  return text ? text : cat("error ", error);
}

static Gpu read_gpu(const Library& driver, int ordinal) {
  enum Attribute { multiprocessors = 16, major_number = 75, minor_number = 76 };
  int device = ordinal;
  driver.call("cuDeviceGet", &device, ordinal);
  const auto attribute = [&](Attribute which) {
    int value = 0;
    driver.call("cuDeviceGetAttribute", &value, int(which), device);
    return value;
  };
  char name[256] = {}, pci[32] = {};
  size_t bytes = 0;
  driver.call("cuDeviceGetName", +name, int(sizeof name) - 1, device);
  driver.call("cuDeviceGetPCIBusId", +pci, int(sizeof pci) - 1, device);
  driver.call("cuDeviceTotalMem_v2", &bytes, device);
  std::string address = pci;
  for (char& c : address) c = char(std::tolower(static_cast<unsigned char>(c)));  // as in /sys
  return {name, 10 * attribute(major_number) + attribute(minor_number), attribute(multiprocessors),
          int64_t(bytes), address};
}

// Returns why there is no GPU to use.
static std::string refusal_of(const Library& driver, int error) {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string hint = visible ? cat(" (CUDA_VISIBLE_DEVICES is '", visible, "')") : "";
  return (error ? error_text(driver, error) : "the driver finds none") + hint;
}

static void read_driver(CudaReport& report) {
  const Library driver("libcuda.so.1");
  if (!driver) return;
  driver.call("cuDriverGetVersion", &report.driver);
  std::ifstream("/sys/module/nvidia/version") >> report.driver_release;
  const int error = driver.call("cuInit", 0U);
  int count = 0;
  if (!error) driver.call("cuDeviceGetCount", &count);
  for (int i = 0; i < count; ++i) report.gpus.push_back(read_gpu(driver, i));
  if (count == 0) report.refusal = refusal_of(driver, error);
}

CudaReport cuda_report() {
  CudaReport report;
  report.code = cuda_code;
  report.chosen = chosen_gpu();
  read_driver(report);
  return report;
}

// ---- what is wrong

// Returns the first release of NVIDIA's driver for the runtime's major number of CUDA.
static const char* driver_for(int runtime) {
  const int major_number = runtime / 1000;
  return major_number == 11 ? "450.80" : major_number == 12 ? "525.60" : "580";
}

static std::string driver_trouble(const CudaReport& r) {
  if (r.driver == 0) return "no CUDA driver";
  // Any driver supports all runtimes of its major number.
  if (r.driver / 1000 < r.code.runtime / 1000)
    return cat("driver too old: it supports CUDA ", cuda_version(r.driver),
               ", this binary has runtime ", cuda_version(r.code.runtime), "; install driver ",
               driver_for(r.code.runtime), " or later");
  return r.gpus.empty() ? "no GPU: " + r.refusal : "";
}

std::string cuda_trouble(const CudaReport& r) {
  if (r.code.runtime == 0) {
    if (r.gpus.empty()) return "this binary has no CUDA code";
    return cat("this binary has no CUDA code, and here is a ", r.gpus[0].name,
               "; build where nvcc is found");
  }
  if (const std::string trouble = driver_trouble(r); !trouble.empty()) return trouble;
  const Gpu& gpu = r.gpu();
  if (runs_on(r.code.architectures, gpu.arch)) return "";
  return cat("wrong architecture in the binary: it has ", architectures_text(r.code.architectures),
             ", the ", gpu.name, " is sm_", gpu.arch,
             "; configure with  -DCMAKE_CUDA_ARCHITECTURES=", gpu.arch);
}

}  // namespace bellows
