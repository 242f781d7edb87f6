#include <nvrtc.h>
#include <algorithm>
#include <ios>
#include <map>
#include <vector>
#include "core/base/library.h"
#include "core/base/trace.h"
#include "ops/chain/pointwise.cuh"
#include "ops/chain/pointwise.h"
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
  std::vector<const char*> names, texts;
  for (const Text& header : kHeaders) names.push_back(header.name), texts.push_back(header.text);
  nvrtcProgram program = nullptr;
  NVRTC_CHECK(nvrtcCreateProgram(&program, source.c_str(), "chain.cu", int(names.size()),
                                 texts.data(), names.data()));
  const auto read = [&](auto size_of, auto text_of) {
    size_t size = 0;
    check(size_of(program, &size), "reading what it wrote");
    std::string text(size, 0);
    check(text_of(program, text.data()), "reading what it wrote");
    return text;
  };
  const std::string architecture = "--gpu-architecture=" + target;
  std::vector<const char*> options(std::begin(kOptions), std::end(kOptions));
  options.push_back(architecture.c_str());
  const nvrtcResult status =
      api().nvrtcCompileProgram(program, int(options.size()), options.data());
  const bool compiled = status == NVRTC_SUCCESS, machine_code = target.starts_with("sm_");
  const std::string text = !compiled ? read(api().nvrtcGetProgramLogSize, api().nvrtcGetProgramLog)
                           : machine_code ? read(api().nvrtcGetCUBINSize, api().nvrtcGetCUBIN)
                                          : read(api().nvrtcGetPTXSize, api().nvrtcGetPTX);
  api().nvrtcDestroyProgram(&program);
  INVARIANT(compiled, "nvrtc: ", api().nvrtcGetErrorString(status), "\n", text);
  return text;
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

namespace bellows {

// ---- source of a chain

namespace {

constexpr const char* kHelpers = R"(
template <int n, class List> struct At;
template <class F, class... Fs> struct At<0, TypeList<F, Fs...>> { using type = F; };
template <int n, class F, class... Fs>
struct At<n, TypeList<F, Fs...>> : At<n - 1, TypeList<Fs...>> {};

using A = Acc<T>;
__device__ A rounded(A x) { return A(T(x)); }  // as if it were stored
template <int n, class... X> __device__ A step(X... x) {
  return rounded(At<n, functors::Steps>::type::value(x...));
}

struct Chain {
  __device__ void operator()(const A* x, A* y) const {
)";
constexpr const char* kAfter = R"(
  }
};

extern "C" __global__ void pointwise(const __grid_constant__ PointwiseGrid grid) {
  run_all_elements<T, kInputs, kOutputs>(grid, Chain());
}

}  // namespace bellows
)";

constexpr const char* kTypes[] = {"double", "float", "Bf16", "F16"};  // by DType

// A literal with the exact value (hexadecimal floating-point).
std::string number(double value) { return cat("A(", std::hexfloat, value, ")"); }

std::string line_for(const Step& step) {
  if (step.function == kInput) return cat("x[", step.from[0], "];");
  if (step.function == kNumber) return cat("rounded(", number(step.a), ");");
  const StepFunction& f = step_functions()[step.function];
  std::string line = cat("step<", step.function, ">(v", step.from[0]);
  for (int k = 1; k < f.arity; ++k) line += cat(", v", step.from[k]);
  if (step.function == kAffine) line += ", " + number(step.a) + ", " + number(step.b);
  return line + ");  // " + f.name;
}

}  // namespace

std::string nvrtc::pointwise_source(const StepProgram& program, DType dtype) {
  std::string text =
      cat("#include \"ops/chain/pointwise_device.cuh\"\n\nnamespace bellows {\n\nusing T = ",
          kTypes[int(dtype)], ";\nconstexpr int kInputs = ", program.inputs.size(),
          ", kOutputs = ", program.outputs.size(), ";\n", kHelpers);
  for (size_t s = 0; s < program.steps.size(); ++s)
    text += cat("    const A v", s, " = ", line_for(program.steps[s]), "\n");
  for (size_t k = 0; k < program.outputs.size(); ++k)
    text += cat("    y[", k, "] = v", program.outputs[k], ";\n");
  return text + kAfter;
}

// ---- compilation and loading of a chain

std::string nvrtc::pointwise_image(const std::string& source, const std::string& target,
                                   DiskCache& cache) {
  const std::string name = "pointwise-" + target, key = fingerprint() + source;
  if (auto kept = cache.find(name, key))
    return trace::count<"pointwise.cache_hits">(), *std::move(kept);
  trace::count<"pointwise.compiles">();
  const std::string image = compile(source, target);
  cache.keep(name, key, image);
  return image;
}

// Returns null if the compiler supports no target that this GPU can run. The library is never
// unloaded, because at exit the driver may already be shut down.
static cudaKernel_t load(const std::string& source) {
  static DiskCache cache;
  static const std::string target = nvrtc::target_for(cuda::limits().arch);
  if (target.empty()) return nullptr;
  const std::string image = nvrtc::pointwise_image(source, target, cache);
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  CUDA_CHECK(cudaLibraryLoadData(&library, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUDA_CHECK(cudaLibraryGetKernel(&kernel, library, "pointwise"));
  return kernel;
}

// The program's slot caches the kernel; `loaded` shares it between programs of equal source.
static cudaKernel_t kernel_for(const StepProgram& program, DType dtype) {
  return program.slot.get<cudaKernel_t>(dtype, [&] {
    static std::map<std::string, cudaKernel_t> loaded;
    const std::string source = nvrtc::pointwise_source(program, dtype);
    const auto found = loaded.find(source);
    return found != loaded.end() ? found->second
                                 : loaded.emplace(source, load(source)).first->second;
  });
}

static void pointwise_compiled(std::span<const Tensor> inputs, const StepProgram& program,
                               std::span<const Tensor> outputs) {
  if (outputs[0].numel() == 0) return;
  const cudaKernel_t kernel =
      nvrtc::available() ? kernel_for(program, outputs[0].dtype()) : nullptr;
  if (!kernel) return kernels::pointwise.plain(inputs, program, outputs);
  const PointwiseGrid grid = make_grid(inputs, outputs);
  launch(kernel, threads_for(grid), grid);
}
static const bool gpu =
    kernels::pointwise.vendor_on(Device::cuda, pointwise_compiled, {.thread_invariant = true});

}  // namespace bellows
