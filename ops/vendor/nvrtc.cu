#include <nvrtc.h>
#include <algorithm>
#include <vector>
#include "core/base/library.h"
#include "ops/vendor/nvrtc.h"

namespace bellows::nvrtc {

namespace {

// ---- the library

struct Api {
  Library loaded{"libnvrtc.so.13", "chains of elementwise functions are interpreted"};
  LIBRARY_FUNCTION(nvrtcVersion);
  LIBRARY_FUNCTION(nvrtcGetNumSupportedArchs);
  LIBRARY_FUNCTION(nvrtcGetSupportedArchs);
  LIBRARY_FUNCTION(nvrtcCreateProgram);
  LIBRARY_FUNCTION(nvrtcDestroyProgram);
  LIBRARY_FUNCTION(nvrtcCompileProgram);
  LIBRARY_FUNCTION(nvrtcGetProgramLogSize);
  LIBRARY_FUNCTION(nvrtcGetProgramLog);
  LIBRARY_FUNCTION(nvrtcGetCUBINSize);
  LIBRARY_FUNCTION(nvrtcGetCUBIN);
  LIBRARY_FUNCTION(nvrtcGetPTXSize);
  LIBRARY_FUNCTION(nvrtcGetPTX);
  LIBRARY_FUNCTION(nvrtcGetErrorString);
};

Api& api() {
  static Api& all = *new Api;
  return all;
}

void check(nvrtcResult status, const char* call) {
  INVARIANT(status == NVRTC_SUCCESS, call, " failed: ", api().nvrtcGetErrorString(status));
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
    NVRTC_CHECK(nvrtcCreateProgram(&program_, source.c_str(), "chain.cu", int(names.size()),
                                   texts.data(), names.data()));
  }
  ~Program() { api().nvrtcDestroyProgram(&program_); }
  Program(Program&&) = delete;

  void compile(const std::string& target) {
    const std::string architecture = "--gpu-architecture=" + target;
    std::vector<const char*> options(std::begin(kOptions), std::end(kOptions));
    options.push_back(architecture.c_str());
    const nvrtcResult status =
        api().nvrtcCompileProgram(program_, int(options.size()), options.data());
    INVARIANT(status == NVRTC_SUCCESS, "nvrtc: ", api().nvrtcGetErrorString(status), "\n",
              read(api().nvrtcGetProgramLogSize, api().nvrtcGetProgramLog));
  }
  std::string machine_code() const { return read(api().nvrtcGetCUBINSize, api().nvrtcGetCUBIN); }
  std::string ptx() const { return read(api().nvrtcGetPTXSize, api().nvrtcGetPTX); }

 private:
  std::string read(decltype(Api::nvrtcGetProgramLogSize) size_of,
                   decltype(Api::nvrtcGetProgramLog) text_of) const {
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
  NVRTC_CHECK(nvrtcGetNumSupportedArchs(&count));
  std::vector<int> known(count);
  NVRTC_CHECK(nvrtcGetSupportedArchs(known.data()));
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
  NVRTC_CHECK(nvrtcVersion(&major, &minor));
  std::string text = cat("nvrtc ", major, ".", minor, "\n");
  for (const char* option : kOptions) text += cat(option, "\n");
  for (const Text& header : kHeaders) text += cat(header.name, "\n", header.text, "\n");
  return text;
}

}  // namespace bellows::nvrtc
