// OpenBLAS, opened by its name at run time.
#include "core/base/library.h"
#include "core/base/trace.h"
#include "ops/vendor/sgemm_tiles.h"

namespace bellows {

static const Library& library() {
  static const Library opened("libopenblas.so.0");
  return opened;
}

std::string openblas::core() {
  const auto name = library().find<const char*()>("openblas_get_corename");
  return name ? name() : "";
}

void openblas::require() {
  CHECK(library(),
        "cpu.blas=openblas: there is no libopenblas.so.0; type  "
        "apt-get install libopenblas0-pthread");
}

// cblas_sgemm: order, transpositions, M, N, K, alpha, a, lda, b, ldb, beta, y, ldy. One call
// computes on one thread, because the calls come from the threads of the run: a second pool would
// compete for the cores, and ignore their pinning.
using Sgemm = void(int, int, int, int, int, int, float, const float*, int, const float*, int, float,
                   float*, int);
static Sgemm* load_sgemm() {
  openblas::require();
  const SingleThreadScope restored;  // a build with OpenMP sets the threads of its caller
  library().require<void(int)>("openblas_set_num_threads")(1);
  return library().require<Sgemm>("cblas_sgemm");
}

void openblas::multiply(const Tensor& y, const Tensor& a, const Tensor& b, Into into) {
  static Sgemm* const sgemm = load_sgemm();
  constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112;
  const MatrixLayout a_ = *matrix_layout(a), b_ = *matrix_layout(b);
  const auto tile = [&](int64_t rows, int64_t columns, const float* from_a, const float* from_b,
                        float* to) {
    sgemm(kRowMajor, a_.transposed ? kTransposed : kPlain, b_.transposed ? kTransposed : kPlain,
          int(rows), int(columns), int(a.dim(2)), 1, from_a, int(a_.stride), from_b, int(b_.stride),
          into == Into::add ? 1 : 0, to, int(y.strides()[1]));
  };
  for_each_tile(y, a, b, tile);
  trace::count<"blas.openblas">(y.dim(0));
}

}  // namespace bellows
