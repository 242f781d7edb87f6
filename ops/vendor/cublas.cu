#include <cublasLt.h>
#include "core/base/library.h"
#include "ops/vendor/cublas.h"
#include "ops/vendor/cuda_call.h"

namespace bellows::cublas {

// ---- the library

namespace {

struct Api {
  Library loaded{"libcublasLt.so.13", "products run on plain kernels"};
  LIBRARY_FUNCTION(cublasLtCreate);
  LIBRARY_FUNCTION(cublasLtGetVersion);
  LIBRARY_FUNCTION(cublasLtGetStatusString);
  LIBRARY_FUNCTION(cublasLtMatmulDescCreate);
  LIBRARY_FUNCTION(cublasLtMatmulDescDestroy);
  LIBRARY_FUNCTION(cublasLtMatmulDescSetAttribute);
  LIBRARY_FUNCTION(cublasLtMatrixLayoutCreate);
  LIBRARY_FUNCTION(cublasLtMatrixLayoutDestroy);
  LIBRARY_FUNCTION(cublasLtMatrixLayoutSetAttribute);
  LIBRARY_FUNCTION(cublasLtMatmulPreferenceCreate);
  LIBRARY_FUNCTION(cublasLtMatmulPreferenceDestroy);
  LIBRARY_FUNCTION(cublasLtMatmulPreferenceSetAttribute);
  LIBRARY_FUNCTION(cublasLtMatmulAlgoGetHeuristic);
  LIBRARY_FUNCTION(cublasLtMatmulAlgoConfigGetAttribute);
  LIBRARY_FUNCTION(cublasLtMatmul);
};

const Api& api() {
  static const Api functions;
  return functions;
}

void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    fail(Exit::internal, running_kernel() ? running_kernel() : "cublas", ": ", what, ": ",
         api().cublasLtGetStatusString(status));
}

// One handle for the process, never destroyed.
cublasLtHandle_t handle() {
  static const cublasLtHandle_t made = [] {
    cublasLtHandle_t fresh = nullptr;
    check(api().cublasLtCreate(&fresh), "cublasLtCreate");
    return fresh;
  }();
  return made;
}

// Owner of a descriptor: the library's functions create it, destroy it and set an attribute.
template <class T, auto create, auto destroy, auto set_attribute> class Owned {
 public:
  template <class... Args> explicit Owned(Args... args) {
    check((api().*create)(&native_, args...), "cuBLASLt does not make a descriptor");
  }
  ~Owned() { (api().*destroy)(native_); }
  Owned(Owned&&) = delete;
  operator T() const { return native_; }
  template <class Value> void set(auto attribute, Value value) const {
    check((api().*set_attribute)(native_, attribute, &value, sizeof value),
          "cuBLASLt does not take an attribute");
  }

 private:
  T native_ = nullptr;
};
using Operation = Owned<cublasLtMatmulDesc_t, &Api::cublasLtMatmulDescCreate,
                        &Api::cublasLtMatmulDescDestroy, &Api::cublasLtMatmulDescSetAttribute>;
using Layout = Owned<cublasLtMatrixLayout_t, &Api::cublasLtMatrixLayoutCreate,
                     &Api::cublasLtMatrixLayoutDestroy, &Api::cublasLtMatrixLayoutSetAttribute>;
using Preference =
    Owned<cublasLtMatmulPreference_t, &Api::cublasLtMatmulPreferenceCreate,
          &Api::cublasLtMatmulPreferenceDestroy, &Api::cublasLtMatmulPreferenceSetAttribute>;

// ---- translation of a Problem

cudaDataType_t type_of(DType dtype) {
  return dtype == DType::bf16 ? CUDA_R_16BF : dtype == DType::f16 ? CUDA_R_16F : CUDA_R_32F;
}

// In the order of Epilogue. cuBLAS is column-major: our rows of y are its columns, our b its A and
// our a its B.
constexpr cublasLtEpilogue_t kEpilogues[] = {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_RELU,
                                             CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS,
                                             CUBLASLT_EPILOGUE_BGRADB};

cublasOperation_t turned(const Operand& operand) {
  return operand.layout.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

}  // namespace

bool available() { return bool(api().loaded); }
std::string loaded() {
  return available() ? cat("cuBLASLt ", api().cublasLtGetVersion()) : "no cuBLASLt";
}

// ---- plans

namespace {

struct OperandLayout : Layout {
  OperandLayout(const Operand& t, const Problem& problem)
      : Layout(type_of(problem.dtype), t.layout.transposed ? t.rows : t.columns,
               t.layout.transposed ? t.columns : t.rows, t.layout.stride) {
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, int32_t(problem.batch));
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, t.batch_stride);
  }
};

// Has a name of its own, because nvcc 13.0 fails on a vector of a struct without one.
struct Heuristic : cublasLtMatmulHeuristicResult_t {};

// Descriptors of a product, which its plans share.
struct Product {
  explicit Product(const Problem& problem);
  std::vector<Heuristic> algorithms(const Problem& problem) const;
  void run(Bindings bindings, const Heuristic& chosen) const;

  Operation operation;
  OperandLayout a, b, y;  // cuBLAS is column-major and computes y^T = b^T a^T: `a` describes our b
  Into into;
  bool tf32;
};

Product::Product(const Problem& problem)
    : operation(problem.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
      a(problem.b, problem),
      b(problem.a, problem),
      y(problem.y, problem),
      into(problem.into),
      tf32(problem.tf32) {
  operation.set(CUBLASLT_MATMUL_DESC_TRANSA, turned(problem.b));
  operation.set(CUBLASLT_MATMUL_DESC_TRANSB, turned(problem.a));
  operation.set(CUBLASLT_MATMUL_DESC_EPILOGUE, kEpilogues[int(problem.epilogue)]);
  // The heuristic needs the pointer's alignment; run() sets the address.
  if (problem.epilogue > Epilogue::relu)
    operation.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                  reinterpret_cast<void*>(uintptr_t(problem.extra_alignment)));
}

std::vector<Heuristic> Product::algorithms(const Problem& problem) const {
  constexpr int kMost = 8;
  const Preference preference;
  preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t(problem.workspace_bytes));
  // Split-K partial sums are added in the compute type, never in 16 bits.
  preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                 uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, problem.b.alignment);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, problem.a.alignment);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, problem.y.alignment);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, problem.y.alignment);
  std::vector<Heuristic> found(kMost);
  int count = 0;
  const cublasStatus_t status = api().cublasLtMatmulAlgoGetHeuristic(
      handle(), operation, a, b, y, y, preference, kMost, found.data(), &count);
  found.resize(status == CUBLAS_STATUS_SUCCESS ? count : 0);
  std::erase_if(found, [](const auto& one) { return one.state != CUBLAS_STATUS_SUCCESS; });
  return found;
}

void Product::run(Bindings bindings, const Heuristic& chosen) const {
  const void* address[4] = {};
  for (const auto& [tensor, at] : bindings) address[tensor] = at;
  if (address[kExtra])
    operation.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, const_cast<void*>(address[kExtra]));
  const float alpha = 1, beta = into == Into::add ? 1 : 0;
  void* const out = const_cast<void*>(address[kY]);
  const CudaCall call(int64_t(chosen.workspaceSize), tf32);
  const cublasStatus_t status = api().cublasLtMatmul(
      handle(), operation, &alpha, address[kB], a, address[kA], b, &beta, out, y, out, y,
      &chosen.algo, call.workspace(), chosen.workspaceSize, cuda::stream());
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    throw PlanFailure(cat("cublasLtMatmul: ", api().cublasLtGetStatusString(status)));
}

struct Algorithm : VendorPlan {
  Algorithm(std::shared_ptr<const Product> product, const Heuristic& chosen)
      : product(std::move(product)), chosen(chosen) {}
  int64_t workspace_bytes() const override { return int64_t(chosen.workspaceSize); }
  void run(Bindings bindings) const override { product->run(bindings, chosen); }
  std::shared_ptr<const Product> product;
  Heuristic chosen;
};

// Returns all settings: "algo66_tile18_splitk1_reduction0_..."
std::string name_of(const cublasLtMatmulAlgo_t& algorithm) {
  // In the order of cublasLtMatmulAlgoConfigAttributes_t.
  constexpr const char* kSettings[] = {"algo",    "_tile",   "_splitk", "_reduction", "_swizzle",
                                       "_custom", "_stages", "_inner",  "_cluster"};
  static_assert(CUBLASLT_ALGO_CONFIG_ID == 0 && CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID == 8);
  std::string name;
  for (int i = 0; i < int(std::size(kSettings)); ++i) {
    uint32_t value = 0;  // 16 bits from the shapes on
    size_t written = 0;
    api().cublasLtMatmulAlgoConfigGetAttribute(
        &algorithm, static_cast<cublasLtMatmulAlgoConfigAttributes_t>(i), &value,
        i < CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID ? 4 : 2, &written);
    name += cat(kSettings[i], value);
  }
  return name;
}

}  // namespace

Proposals propose(const Problem& problem, Search) {
  const auto product = std::make_shared<const Product>(problem);
  Proposals all;
  for (const Heuristic& found : product->algorithms(problem))
    all.push_back({name_of(found.algo),
                   [product, found] { return std::make_shared<const Algorithm>(product, found); }});
  return all;
}

}  // namespace bellows::cublas
