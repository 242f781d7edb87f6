#include <ios>
#include <map>
#include "core/base/trace.h"
#include "ops/chain/pointwise.cuh"
#include "ops/chain/pointwise.h"
#include "ops/vendor/nvrtc.h"
#include "ops/vendor/nvrtc_pointwise.h"

namespace bellows {

// ---- source

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
constexpr const char* kAfter = R"(  }
};

extern "C" __global__ void pointwise(const __grid_constant__ PointwiseGrid grid) {
  run_all_elements<T, kInputs, kOutputs>(grid, Chain());
}

}  // namespace bellows
)";

const char* stored_type(DType dtype) {
  return visit_stored(dtype, []<class T>(T) {
    if constexpr (std::is_same_v<T, double>) return "double";
    if constexpr (std::is_same_v<T, float>) return "float";
    if constexpr (std::is_same_v<T, Bf16>) return "Bf16";
    if constexpr (std::is_same_v<T, F16>) return "F16";
  });
}

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
          stored_type(dtype), ";\nconstexpr int kInputs = ", program.inputs.size(),
          ", kOutputs = ", program.outputs.size(), ";\n", kHelpers);
  for (size_t s = 0; s < program.steps.size(); ++s)
    text += cat("    const A v", s, " = ", line_for(program.steps[s]), "\n");
  for (size_t k = 0; k < program.outputs.size(); ++k)
    text += cat("    y[", k, "] = v", program.outputs[k], ";\n");
  return text + kAfter;
}

// ---- compilation and loading

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
