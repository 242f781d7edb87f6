// The order in which the batch_norm kernels that read x twice pass over its rows.
#include "ops/norm/batch_norm_streaming.cuh"
#include "tests/cuda_host/beside_cpu.h"

using namespace cuda_host;
using namespace bellows::batch_norm_cuda;

namespace {

// Notes in `turns` which of its thread's reads took a row: 1 for the first, 0 for never. A row that
// is read twice gets -1.
struct Turns {
  int *turns, *reads;  // per row; per thread, all 0 before
  int length;
  __device__ void note(int64_t i) const {
    const int64_t block = blockIdx.y * gridDim.x + blockIdx.x;
    int& own = reads[(block * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x];
    int& turn = turns[i / length];
    turn = turn ? -1 : ++own;
  }
};

// A job for sum_columns that only notes its reads.
struct Noted {
  using A = float;
  Turns turns;
  template <int K, int M> struct Terms {
    static constexpr int kAhead = 4;
    Turns turns;
    __device__ int read(int64_t i) const { return turns.note(i), 0; }
    __device__ void add(int64_t, int, Sums<A> (&)[K]) const {}
  };
  template <int K, int M> __device__ Terms<K, M> terms(int64_t, int) const { return {turns}; }
  __device__ A pivot(int64_t) const { return 0; }
  __device__ Sums<A> part(const Sums<A>& sums, double, A) const { return sums; }
  __device__ Sums<double> of_group(const Sums<A>&, double, const Sums<A>&) const { return {}; }
  __device__ void store(const Sums<double>&, const Rows&, int, const Sums<A>&) const {}
};

template <int K> __global__ void note_rows(Turns turns, Groups groups) {
  const int column = own_column<K>();
  if (column >= groups.rows.length) return;
  back_up_the_rows(
      groups, column, [&](int64_t i) { return turns.note(i), 0; }, [](int64_t, int) {});
}

struct NormRows : InAnyOrder {};

}  // namespace

// One piece of 16 bytes per row, so that each row has one reader per pass. The rows of several
// rounds, of one round that is not full, and fewer than a block has threads for.
TEST_P(NormRows, AreSummedForwardsAndNormalizedBackwards) {
  for (const int64_t n : {70000, 33000, 300, 1}) {
    SCOPED_TRACE(n);
    const Tensor x({n, 4}, DType::f32, Device::cuda);
    const Rows rows(x);
    const auto turns_of = [&](const auto& pass) {
      const Tensor turns = zeros({n}, DType::i32, Device::cuda),
                   reads = zeros({1 << 20}, DType::i32, Device::cuda);
      pass(Turns{turns.ptr<int32_t>(), reads.ptr<int32_t>(), rows.length});
      const Tensor back = to(Device::cpu, turns);
      synchronize(current_stream(Device::cuda));
      return std::vector<int>(back.ptr<int32_t>(), back.ptr<int32_t>() + n);
    };
    const auto first = turns_of([&](const Turns& t) { sum_by_columns<4>(Noted{t}, rows); });
    const auto second = turns_of([&](const Turns& t) { launch_on_rows<note_rows<4>, 4>(rows, t); });
    EXPECT_EQ(first.front(), 1);
    EXPECT_EQ(second.back(), 1);
    EXPECT_TRUE(std::ranges::is_sorted(first));
    EXPECT_TRUE(std::ranges::is_sorted(second, std::greater()));
    EXPECT_GT(std::ranges::min(first), 0);
    EXPECT_GT(std::ranges::min(second), 0);
  }
}

// Every row belongs to one group, a wave has room for all blocks, and no group is empty.
TEST(NormGroups, FillOneWave) {
  for (const int64_t n : {1, 31, 32, 33, 1000, 100000})
    for (const int64_t tiles : {1, 3, 200, 2000}) {
      SCOPED_TRACE(cat(n, " rows, ", tiles, " tiles"));
      const Tensor x({n, 2}, DType::f32);
      const Groups groups(Rows(x), 8, 32, 528, tiles);
      double rows = 0;
      for (int g = 0; g < groups.count; ++g) {
        EXPECT_GT(groups.elements(g), 0);
        rows += groups.elements(g);
      }
      EXPECT_EQ(rows, n);
      EXPECT_TRUE(groups.count == 1 || groups.count * tiles <= 528) << groups.count;
      if (n == 100000 && tiles < 528) {
        EXPECT_GT((groups.count + 1) * tiles, 528);
      }
    }
}

IN_ANY_ORDER(NormRows);
