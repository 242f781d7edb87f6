#include <cstddef>
#include "core/device/launch.cuh"
#include "core/device/reduce.cuh"
#include "core/device/shared.cuh"
#include "optim/muon.h"

namespace bellows {

namespace {

// Up to kMost matrices, as a kernel argument: at most 25 of the 32 KB that there is room for.
template <class T, int kMost> struct Table {
  int count = 0;
  int first[kMost + 1] = {};  // chunk of each matrix, and the end
  int out[kMost] = {};
  Divisor rest[kMost];
  int64_t at[kMost] = {};
  Row<T> rows[kMost];

  // Returns the matrix of this block's chunk.
  __device__ int matrix() const { return entry_at(chunk(), first, count); }
  __device__ int chunk() const { return first[0] + int(blockIdx.x); }
  // Calls fn(k) for this thread's elements of the block's chunk of matrix i.
  template <class Fn> __device__ void for_elements(int i, const Fn& fn) const {
    constexpr int kChunk = int(MuonMatrix::kChunk);
    const int begin = (chunk() - first[i]) * kChunk;
    const int end = begin + std::min(kChunk, out[i] * rest[i].size - begin);
    for (int k = begin + int(threadIdx.x); k < end; k += blockDim.x) fn(k);
  }
  // Returns the norm of matrix i on every thread, from the sums of its chunks.
  __device__ float norm(int i, const double* squares) const {
    double sum = 0;
    for (int c = first[i] + int(threadIdx.x); c < first[i + 1]; c += blockDim.x) sum += squares[c];
    return muon_norm(block_sum(sum, dynamic_shared<double>()));
  }
};
constexpr int kFew = 24, kMany = 256;

// Kernels: a block of kThreads per chunk of MuonMatrix::kChunk elements; shared memory: a double
// per warp.

// Moves g, v twice, u, and w for its norm.
template <class T, int kMost>
__global__ void momentum(const __grid_constant__ Table<T, kMost> table, T* u, double* of_u,
                         double* of_w, MuonOptions o, StepSource now) {
  if (now.state->found_inf) return;
  const MuonMomentum<T> rule(o, now.values());
  const int i = table.matrix();
  const Row<T>& row = table.rows[i];
  double squares[2] = {};
  table.for_elements(i, [&](int k) {
    const T d = rule.direction(row.gradient(k), row.buffer[0][k]);
    u[table.at[i] + k] = d;
    squares[0] += double(d) * double(d);
    if (o.normalize_weights) squares[1] += double(row.w[k]) * double(row.w[k]);
  });
  const double sum = block_sum(squares[0], dynamic_shared<double>());
  const double sum_w = block_sum(squares[1], dynamic_shared<double>());
  if (threadIdx.x > 0) return;
  of_u[table.chunk()] = sum;
  of_w[table.chunk()] = sum_w;
}

// Moves u and x.
template <class T, int kMost, class X>
__global__ void normalize(const __grid_constant__ Table<T, kMost> table, const T* u, X* x,
                          const double* of_u) {
  const int i = table.matrix(), out = table.out[i];
  const Divisor& rest = table.rest[i];
  const T scale = T(muon_scale(table.norm(i, of_u)));
  table.for_elements(i, [&](int k) {
    x[table.at[i] + MuonMatrix::in_x(k, out, rest)] = X(u[table.at[i] + k] * scale);
  });
}

__device__ unsigned step_ticket;

// Moves x, w twice and its 16-bit copy. The block that ends last ends the update.
template <class T, int kMost, class X>
__global__ void step(const __grid_constant__ Table<T, kMost> table, const X* x, const double* of_w,
                     MuonOptions o, StepSource now, bool last) {
  if (!now.state->found_inf) {
    const int i = table.matrix(), out = table.out[i];
    const Divisor& rest = table.rest[i];
    const MuonStep<T> rule(out, rest.size, o.normalize_weights ? table.norm(i, of_w) : 0,
                           now.values());
    const Row<T>& row = table.rows[i];
    table.for_elements(i, [&](int k) {
      row.w[k] = rule.moved(row.w[k], T(x[table.at[i] + MuonMatrix::in_x(k, out, rest)]));
      write_copy(row, k);
    });
  }
  if (last && is_last_block(&step_ticket) && threadIdx.x == 0) finish_step(*now.state);
}

// Calls start(table, grid, is_last) for tables of all matrices. Returns the number of calls.
template <class T, int kMost, class Start>
int64_t in_tables(MuonMatrices matrices, const Launch& u, const Start& start) {
  int64_t calls = 0;
  for (size_t from = 0; from < matrices.size(); from += kMost, ++calls) {
    Table<T, kMost> table;
    const auto part = matrices.subspan(from, std::min<size_t>(kMost, matrices.size() - from));
    for (const MuonMatrix& m : part) {
      const int i = table.count++;
      table.first[i] = int(m.chunk), table.first[i + 1] = int(m.chunk + m.chunks());
      table.out[i] = int(m.out), table.rest[i] = Divisor(m.rest), table.at[i] = m.at;
      table.rows[i] = row_of<T>(u, m.weight, 0);
    }
    start(table,
          Grid{unsigned(table.first[table.count] - table.first[0]), kThreads,
               kThreads / kWarp * sizeof(double)},
          from + part.size() == matrices.size());
  }
  return calls;
}
template <class Start>
int64_t for_tables(MuonMatrices matrices, const Launch& u, const Start& start) {
  return visit_float(u.weights[matrices[0].weight].dtype(), [&]<class T>(T) {
    return matrices.size() <= kFew ? in_tables<T, kFew>(matrices, u, start)
                                   : in_tables<T, kMany>(matrices, u, start);
  });
}
// Calls fn(x) with its data as T*, or Bf16* for float weights.
template <class T, class Fn> void with_x(const Tensor& x, const Fn& fn) {
  if constexpr (std::is_same_v<T, float>)
    if (x.dtype() == DType::bf16) return fn(x.ptr<Bf16>());
  fn(x.ptr<T>());
}

int64_t momentum_cuda(const Tensor& direction, const Tensor& squares, const Launch& u,
                      MuonMatrices matrices, const MuonOptions& o) {
  double *const of_u = squares.ptr<double>(), *const of_w = of_u + squares.dim(1);
  return for_tables(
      matrices, u, [&]<class T, int kMost>(const Table<T, kMost>& table, const Grid& grid, bool) {
        launch(momentum<T, kMost>, grid, table, direction.ptr<T>(), of_u, of_w, o, u.step);
      });
}

int64_t normalize_cuda(const Tensor& x, const Tensor& direction, const Tensor& squares,
                       const Launch& u, MuonMatrices matrices) {
  return for_tables(matrices, u,
                    [&]<class T, int kMost>(const Table<T, kMost>& table, const Grid& grid, bool) {
                      with_x<T>(x, [&]<class X>(X* to) {
                        launch(normalize<T, kMost, X>, grid, table, direction.ptr<T>(), to,
                               squares.ptr<double>());
                      });
                    });
}

int64_t step_cuda(const Tensor& x, const Tensor& squares, const Launch& u, MuonMatrices matrices,
                  const MuonOptions& o) {
  const double* const of_w = squares.ptr<double>() + squares.dim(1);
  return for_tables(
      matrices, u,
      [&]<class T, int kMost>(const Table<T, kMost>& table, const Grid& grid, bool last) {
        with_x<T>(x, [&]<class X>(const X* from) {
          launch(step<T, kMost, X>, grid, table, from, of_w, o, u.step, last && u.last);
        });
      });
}

const bool gpu = kernels::muon_momentum.on(Device::cuda, momentum_cuda) &&
                 kernels::muon_normalize.on(Device::cuda, normalize_cuda) &&
                 kernels::muon_step.on(Device::cuda, step_cuda);

}  // namespace

}  // namespace bellows
