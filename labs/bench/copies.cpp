#include <immintrin.h>
#include <algorithm>
#include <cstring>
#include "core/base/output.h"
#include "core/device/parallel.h"
#include "core/device/timer.h"
#include "core/tensor/copy.h"
#include "core/tensor/pinned.h"
#include "core/tensor/tensor.h"
#include "labs/bench/bench.h"
#include "trainer/verbs/tables.h"

namespace bellows {

static constexpr int64_t kPage = 1 << 19;  // elements per parallel chunk: 2 MiB

// y = a + 0.5 b with non-temporal stores. Ordinary stores would read each cache line before they
// write it.
static void stream_triad(float* y, const float* a, const float* b, int64_t n) {
  const __m256 half = _mm256_set1_ps(0.5F);
  for (int64_t i = 0; i + 8 <= n; i += 8)
    _mm256_stream_ps(y + i, _mm256_fmadd_ps(half, _mm256_load_ps(b + i), _mm256_load_ps(a + i)));
  _mm_sfence();
}

// Returns the number of floats in each of the three arrays, which take an eighth of free memory,
// from 2 to 256 MiB.
static int64_t floats_in_an_array() {
  const auto free = int64_t(api_of(Device::cpu).available());
  return std::clamp<int64_t>(free / 8 / int64_t(sizeof(float)), kPage, int64_t(64) << 20) / kPage *
         kPage;
}

double triad_rate() {
  const int64_t n = floats_in_an_array();
  const Tensor a = full({n}, 1), b = full({n}, 1), y = full({n}, 1);
  const auto triad = [&] {
    parallel_for(n, kPage, [&](int64_t begin, int64_t end) {
      stream_triad(y.ptr<float>() + begin, a.ptr<float>() + begin, b.ptr<float>() + begin,
                   end - begin);
    });
  };
  const Timing time = time_interleaved({triad}, Device::cpu)[0];
  return 3 * double(n) * sizeof(float) / time.median();
}

double device_copy_rate(int64_t bytes) {
  const Tensor from = full({bytes}, 1, DType::u8, Device::cuda), to = empty_like(from);
  const auto copy = [&, stream = current_stream(Device::cuda)] {
    api_of(Device::cuda).copy(to.bytes(), from.bytes(), size_t(bytes), stream);
  };
  const Timing time = time_interleaved({copy}, Device::cuda)[0];
  return 2 * double(bytes) / time.median();
}

// Rates of copies to a GPU from pinned and pageable memory, back to both, and within the GPU.
static std::vector<double> device_rates(int64_t bytes) {
  const Stream stream = current_stream(Device::cuda);
  const Tensor locked = pinned({bytes}, DType::u8);
  const Tensor pageable = full({bytes}, 1, DType::u8), on_gpu = to(Device::cuda, pageable);
  std::memcpy(locked.bytes(), pageable.bytes(), size_t(bytes));
  const auto copy = [&](void* to, const void* from) -> std::function<void()> {
    return [=] { api_of(Device::cuda).copy(to, from, size_t(bytes), stream); };
  };
  const std::vector<Timing> times = time_interleaved(
      {copy(on_gpu.bytes(), locked.bytes()), copy(on_gpu.bytes(), pageable.bytes()),
       copy(locked.bytes(), on_gpu.bytes()), copy(pageable.bytes(), on_gpu.bytes())},
      Device::cuda);
  std::vector<double> rates;
  for (const Timing& time : times) rates.push_back(double(bytes) / time.median());
  rates.push_back(device_copy_rate(bytes));
  return rates;
}

// ---- trainer bench h2d: bytes per second to a GPU and back, from pinned and pageable memory

static int run_copies(CommandLine& line, const Arguments& args) {
  if (!line.read(args)) return 0;
  const Device device = start_bench("cuda");
  std::vector<TableRow> rows = {
      {"bytes", "h2d pinned", "h2d pageable", "d2h pinned", "d2h pageable", "d2d"}};
  for (const int64_t bytes : {1 << 16, 1 << 20, 1 << 24, 1 << 28}) {
    rows.push_back({size_text(bytes)});
    for (const double rate : device_rates(bytes)) rows.back().push_back(rate_text(rate, "B/s"));
  }
  say(cat("copies on ", device_text(device), ", one after the other; medians"));
  say_part(aligned(rows, "rrrrrr"));
  say("d2d counts the bytes read and the bytes written");
  return 0;
}

static const AddBench copies_bench({"h2d",
                                    "GB/s to a GPU and back, from pinned and pageable memory",
                                    "trainer bench h2d", run_copies});

}  // namespace bellows
