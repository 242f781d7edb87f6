#include <nvrtc.h>
#include <algorithm>
#include <vector>
#include "core/base/library.h"
#include "ops/vendor/nvrtc.h"

namespace bellows::nvrtc {

namespace {

// ---- the library

struct Api {
  Api() {
    if (!loaded) return;
    loaded.require("nvrtcVersion", version);
    loaded.require("nvrtcGetNumSupportedArchs", arch_count);
    loaded.require("nvrtcGetSupportedArchs", archs);
    loaded.require("nvrtcCreateProgram", create);
    loaded.require("nvrtcDestroyProgram", destroy);
    loaded.require("nvrtcCompileProgram", compile);
    loaded.require("nvrtcGetProgramLogSize", log_size);
    loaded.require("nvrtcGetProgramLog", log);
    loaded.require("nvrtcGetCUBINSize", cubin_size);
    loaded.require("nvrtcGetCUBIN", cubin);
    loaded.require("nvrtcGetPTXSize", ptx_size);
    loaded.require("nvrtcGetPTX", ptx);
    loaded.require("nvrtcGetErrorString", error);
  }

  Library loaded{"libnvrtc.so.13", "chains of elementwise functions are interpreted"};
  decltype(&nvrtcVersion) version;
  decltype(&nvrtcGetNumSupportedArchs) arch_count;
  decltype(&nvrtcGetSupportedArchs) archs;
  decltype(&nvrtcCreateProgram) create;
  decltype(&nvrtcDestroyProgram) destroy;
  decltype(&nvrtcCompileProgram) compile;
  decltype(&nvrtcGetProgramLogSize) log_size, cubin_size, ptx_size;
  decltype(&nvrtcGetProgramLog) log, cubin, ptx;
  decltype(&nvrtcGetErrorString) error;
};

Api& api() {
  static Api& all = *new Api;
  return all;
}

void check(nvrtcResult status, const char* call) {
  INVARIANT(status == NVRTC_SUCCESS, call, " failed: ", api().error(status));
}
#define NVRTC_CHECK(call) check(api().call, #call)

// ---- the program: headers, options, source

struct Text {
  const char *name, *text;
};
// The parts of the standard library that our headers use, then those headers.
constexpr Text kHeaders[] = {
    {"cmath",
     "#pragma once\n"
     "#define M_PI 3.14159265358979323846\n"
     "#define M_LOG2E 1.4426950408889634074\n"
     "#define M_LN2 0.69314718055994530942\n"
     "#define M_2_SQRTPI 1.12837916709551257390\n"
     "#define M_SQRT1_2 0.70710678118654752440\n"
     "namespace std { using ::copysign; using ::erfc; using ::exp; using ::fabs; using ::fma;"
     " using ::log;"
     " using ::sqrt; using ::tanh; }\n"},
    {"cstdint",
     "#pragma once\n"
     "using int64_t = long long; using uint64_t = unsigned long long;\n"
     "using int32_t = int; using uint32_t = unsigned; using uint16_t = unsigned short;\n"},
    {"bit",
     "#pragma once\n"
     "namespace std { template <class To, class From>\n"
     "__host__ __device__ constexpr To bit_cast(From x) { return __builtin_bit_cast(To, x); } }\n"},
#include <runtime_headers.inc>
};

// No fused multiply-add: products and sums are rounded separately, so a chain in one kernel gives
// the same bits as one kernel per op.
constexpr const char* kOptions[] = {"--std=c++20", "--fmad=false"};

// RAII owner of an nvrtcProgram.
class Program {
 public:
  explicit Program(const std::string& source) {
    std::vector<const char*> names, texts;
    for (const Text& header : kHeaders) names.push_back(header.name), texts.push_back(header.text);
    NVRTC_CHECK(create(&program_, source.c_str(), "chain.cu", int(names.size()), texts.data(),
                       names.data()));
  }
  ~Program() { api().destroy(&program_); }
  Program(Program&&) = delete;

  void compile(const std::string& target) {
    const std::string architecture = "--gpu-architecture=" + target;
    std::vector<const char*> options(std::begin(kOptions), std::end(kOptions));
    options.push_back(architecture.c_str());
    const nvrtcResult status = api().compile(program_, int(options.size()), options.data());
    INVARIANT(status == NVRTC_SUCCESS, "nvrtc: ", api().error(status), "\n",
              read(api().log_size, api().log));
  }
  std::string machine_code() const { return read(api().cubin_size, api().cubin); }
  std::string ptx() const { return read(api().ptx_size, api().ptx); }

 private:
  std::string read(decltype(Api::log_size) size_of, decltype(Api::log) text_of) const {
    size_t size = 0;
    check(size_of(program_, &size), "reading what it wrote");
    std::string text(size, 0);
    check(text_of(program_, text.data()), "reading what it wrote");
    return text;
  }

  nvrtcProgram program_ = nullptr;
};

}  // namespace

bool available() { return bool(api().loaded); }

std::string target_for(int capability) {
  int count = 0;
  NVRTC_CHECK(arch_count(&count));
  std::vector<int> known(count);
  NVRTC_CHECK(archs(known.data()));
  std::erase_if(known, [&](int arch) { return arch > capability; });
  if (known.empty()) return "";
  const int latest = *std::ranges::max_element(known);
  return cat(latest == capability ? "sm_" : "compute_", latest);
}

std::string compile(const std::string& source, const std::string& target) {
  Program program(source);
  program.compile(target);
  return target.starts_with("sm_") ? program.machine_code() : program.ptx();
}

std::string fingerprint() {
  int major = 0, minor = 0;
  NVRTC_CHECK(version(&major, &minor));
  std::string text = cat("nvrtc ", major, ".", minor, "\n");
  for (const char* option : kOptions) text += cat(option, "\n");
  for (const Text& header : kHeaders) text += cat(header.name, "\n", header.text, "\n");
  return text;
}

}  // namespace bellows::nvrtc
