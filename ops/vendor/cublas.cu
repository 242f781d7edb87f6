#include "core/base/library.h"
#include "ops/vendor/cublas.h"
#include "ops/vendor/cuda_call.h"

namespace bellows::cublas {

// ---- the library

namespace {

struct Api {
  Api() {
    if (!loaded) return;
    loaded.require("cublasLtCreate", create);
    loaded.require("cublasLtGetVersion", version);
    loaded.require("cublasLtGetStatusString", text);
    loaded.require("cublasLtMatmulDescCreate", create_operation);
    loaded.require("cublasLtMatmulDescDestroy", destroy_operation);
    loaded.require("cublasLtMatmulDescSetAttribute", set_operation);
    loaded.require("cublasLtMatrixLayoutCreate", create_layout);
    loaded.require("cublasLtMatrixLayoutDestroy", destroy_layout);
    loaded.require("cublasLtMatrixLayoutSetAttribute", set_layout);
    loaded.require("cublasLtMatmulPreferenceCreate", create_preference);
    loaded.require("cublasLtMatmulPreferenceDestroy", destroy_preference);
    loaded.require("cublasLtMatmulPreferenceSetAttribute", set_preference);
    loaded.require("cublasLtMatmulAlgoGetHeuristic", choose);
    loaded.require("cublasLtMatmul", matmul);
  }

  Library loaded{"libcublasLt.so.13", "products run on plain kernels"};
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtGetVersion) version;
  decltype(&cublasLtGetStatusString) text;
  decltype(&cublasLtMatmulDescCreate) create_operation;
  decltype(&cublasLtMatmulDescDestroy) destroy_operation;
  decltype(&cublasLtMatmulDescSetAttribute) set_operation;
  decltype(&cublasLtMatrixLayoutCreate) create_layout;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
  decltype(&cublasLtMatmulAlgoGetHeuristic) choose;
  decltype(&cublasLtMatmul) matmul;
};

const Api& api() {
  static const Api functions;
  return functions;
}

void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    fail(Exit::internal, running_kernel() ? running_kernel() : "cublas", ": ", what, ": ",
         api().text(status));
}

// One handle for the process, never destroyed.
cublasLtHandle_t handle() {
  static const cublasLtHandle_t made = [] {
    cublasLtHandle_t fresh = nullptr;
    check(api().create(&fresh), "cublasLtCreate");
    return fresh;
  }();
  return made;
}

template <class T>
void set(cublasLtMatmulDesc_t to, cublasLtMatmulDescAttributes_t which, T value) {
  check(api().set_operation(to, which, &value, sizeof(value)), "cublasLtMatmulDescSetAttribute");
}
template <class T>
void set(cublasLtMatrixLayout_t to, cublasLtMatrixLayoutAttribute_t which, T value) {
  check(api().set_layout(to, which, &value, sizeof(value)), "cublasLtMatrixLayoutSetAttribute");
}
template <class T>
void set(cublasLtMatmulPreference_t to, cublasLtMatmulPreferenceAttributes_t which, T value) {
  check(api().set_preference(to, which, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
}

// ---- translation of a Problem

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return CUDA_R_64F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

cublasComputeType_t compute_of(const Problem& problem) {
  if (problem.dtype == DType::f64) return CUBLAS_COMPUTE_64F;
  return problem.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

// cuBLAS is column-major: our rows of y are its columns, our b its A and our a its B.
cublasLtEpilogue_t epilogue_of(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::relu:
      return CUBLASLT_EPILOGUE_RELU;
    case Epilogue::add_row:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::add_row_relu:
      return CUBLASLT_EPILOGUE_RELU_BIAS;
    case Epilogue::sum_a:
      return CUBLASLT_EPILOGUE_BGRADB;
    default:
      return CUBLASLT_EPILOGUE_DEFAULT;
  }
}

// Largest power of two up to 256 that divides the address.
uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<uintptr_t>(address) | 256;
  return uint32_t(bits & -bits);
}

cublasOperation_t turned(const Operand& operand) {
  return operand.layout.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

}  // namespace

std::string loaded() { return api().loaded ? cat("cuBLASLt ", api().version()) : "no cuBLASLt"; }

Operand::Operand(const Tensor& t)
    : rows(t.dim(1)),
      columns(t.dim(2)),
      batch_stride(t.strides()[0]),
      layout(*matrix_layout(t)),
      alignment(alignment_of(t.bytes())) {}

Problem::Problem(const Tensor& y, const Tensor& a, const Tensor& b, Into into, Epilogue epilogue,
                 const void* extra)
    : dtype(y.dtype()),
      batch(y.dim(0)),
      y(y),
      a(a),
      b(b),
      into(into),
      epilogue(epilogue),
      extra_alignment(alignment_of(extra)),
      tf32(dtype == DType::f32 && kernel_options().tf32),
      workspace_bytes(std::min<int64_t>(32, kernel_options().workspace_mb) << 20) {}

// ---- Product

void Product::Destroy::operator()(cublasLtMatmulDescOpaque_t* operation) const {
  api().destroy_operation(operation);
}
void Product::Destroy::operator()(cublasLtMatrixLayoutOpaque_t* layout) const {
  api().destroy_layout(layout);
}
void Product::Destroy::operator()(cublasLtMatmulPreferenceOpaque_t* preference) const {
  api().destroy_preference(preference);
}

Product::Layout Product::layout(const Operand& operand, const Problem& problem) {
  const auto [rows, columns] = operand.layout.transposed ? std::pair(operand.rows, operand.columns)
                                                         : std::pair(operand.columns, operand.rows);
  cublasLtMatrixLayout_t made = nullptr;
  check(api().create_layout(&made, type_of(problem.dtype), rows, columns, operand.layout.stride),
        "cublasLtMatrixLayoutCreate");
  set(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, int32_t(problem.batch));
  set(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, operand.batch_stride);
  return Layout(made);
}

Product::Product(const Problem& problem)
    : a_(layout(problem.b, problem)),
      b_(layout(problem.a, problem)),
      y_(layout(problem.y, problem)),
      wide_(problem.dtype == DType::f64),
      into_(problem.into),
      tf32_(problem.tf32) {
  cublasLtMatmulDesc_t operation = nullptr;
  check(api().create_operation(&operation, compute_of(problem), wide_ ? CUDA_R_64F : CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  operation_.reset(operation);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, turned(problem.b));
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, turned(problem.a));
  set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(problem.epilogue));
  // The heuristic needs the pointer's alignment; run() sets the address.
  if (problem.epilogue > Epilogue::relu)
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
        reinterpret_cast<void*>(uintptr_t(problem.extra_alignment)));
  choose(problem);
}

void Product::choose(const Problem& problem) {
  cublasLtMatmulPreference_t preference = nullptr;
  check(api().create_preference(&preference), "cublasLtMatmulPreferenceCreate");
  const Owned<cublasLtMatmulPreferenceOpaque_t> owned(preference);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t(problem.workspace_bytes));
  // Split-K partial sums are added in the compute type, never in 16 bits.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, problem.b.alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, problem.a.alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, problem.y.alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, problem.y.alignment);
  int found = 0;
  const cublasStatus_t status = api().choose(handle(), operation_.get(), a_.get(), b_.get(),
                                             y_.get(), y_.get(), preference, 1, &chosen_, &found);
  found_ = status == CUBLAS_STATUS_SUCCESS && found == 1 && chosen_.state == CUBLAS_STATUS_SUCCESS;
}

void Product::run(const Tensor& y, const Tensor& a, const Tensor& b, void* extra) const {
  if (extra) set(operation_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, extra);
  const double one = 1, zero = 0;
  const float one_f = 1, zero_f = 0;
  const auto scalar = [&](bool is_one) -> const void* {
    if (wide_) return is_one ? &one : &zero;
    return is_one ? &one_f : &zero_f;
  };
  const CudaCall call(int64_t(chosen_.workspaceSize), tf32_);
  check(api().matmul(handle(), operation_.get(), scalar(true), b.bytes(), a_.get(), a.bytes(),
                     b_.get(), scalar(into_ == Into::add), y.bytes(), y_.get(), y.bytes(), y_.get(),
                     &chosen_.algo, call.workspace(), chosen_.workspaceSize, cuda::stream()),
        "cublasLtMatmul");
}

bool multiply(const Tensor& y, const Tensor& a, const Tensor& b, Into into, Epilogue epilogue,
              const Tensor& extra, Slot& slot) {
  if (!api().loaded || y.numel() == 0 || a.dim(2) == 0) return false;
  void* const address = extra.defined() ? extra.bytes() : nullptr;
  const Problem problem(y, a, b, into, epilogue, address);
  const Product& product = slot.get<Product>(problem, [&] { return Product(problem); });
  if (product) product.run(y, a, b, address);
  return bool(product);
}

}  // namespace bellows::cublas
