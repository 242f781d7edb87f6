#include "trainer/bench/copies.h"
#include <fcntl.h>
#include <immintrin.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include "core/base/output.h"
#include "core/base/trace.h"
#include "core/device/parallel.h"
#include "core/device/timer.h"
#include "core/tensor/copy.h"
#include "core/tensor/pinned.h"
#include "core/tensor/rng.h"
#include "core/tensor/tensor.h"
#include "trainer/bench/bench.h"
#include "trainer/verbs/tables.h"

namespace bellows {

// ---- RAM

static constexpr int64_t kPage = 1 << 19;  // elements per parallel chunk: 2 MiB

// y = a + 0.5 b with non-temporal stores. Ordinary stores would read each cache line before they
// write it.
static void stream_triad(float* y, const float* a, const float* b, int64_t n) {
  const __m256 half = _mm256_set1_ps(0.5F);
  for (int64_t i = 0; i + 8 <= n; i += 8)
    _mm256_stream_ps(y + i, _mm256_fmadd_ps(half, _mm256_load_ps(b + i), _mm256_load_ps(a + i)));
  _mm_sfence();
}

static double read_all(const float* a, int64_t n) {
  return parallel_sum(n, kPage, [&](int64_t begin, int64_t end) {
    __m256 sums[4] = {};
    for (int64_t i = begin; i < end; i += 32)
      for (int s = 0; s < 4; ++s) sums[s] = _mm256_add_ps(sums[s], _mm256_load_ps(a + i + 8 * s));
    return double(_mm256_cvtss_f32(sums[0] + sums[1] + sums[2] + sums[3]));
  });
}

// Returns the number of floats in each of the three arrays, which take an eighth of free memory,
// from 2 to 256 MiB.
static int64_t floats_in_an_array() {
  const auto free = int64_t(api_of(Device::cpu).available());
  return std::clamp<int64_t>(free / 8 / int64_t(sizeof(float)), kPage, int64_t(64) << 20) / kPage *
         kPage;
}

namespace {
struct Arrays {
  const int64_t n = floats_in_an_array();
  const double bytes = double(n) * sizeof(float);
  const Tensor a = full({n}, 1), b = full({n}, 1), y = full({n}, 1);

  double read() const { return read_all(a.ptr<float>(), n); }
  void copy() const {
    parallel_for(n, kPage, [&](int64_t begin, int64_t end) {
      std::memcpy(y.ptr<float>() + begin, a.ptr<float>() + begin,
                  size_t(end - begin) * sizeof(float));
    });
  }
  void triad() const {
    parallel_for(n, kPage, [&](int64_t begin, int64_t end) {
      stream_triad(y.ptr<float>() + begin, a.ptr<float>() + begin, b.ptr<float>() + begin,
                   end - begin);
    });
  }
};
}  // namespace

std::vector<CopyRate> memory_rates() {
  const Arrays arrays;
  volatile double kept = 0;
  const std::vector<Timing> times = time_interleaved(
      {[&] { kept = kept + arrays.read(); }, [&] { arrays.copy(); }, [&] { arrays.triad(); }},
      Device::cpu);
  return {{"RAM read", arrays.bytes / times[0].median(), "read"},
          {"RAM copy", 2 * arrays.bytes / times[1].median(), "read + written"},
          {"RAM triad", 3 * arrays.bytes / times[2].median(), "read + written, y = a + s b"}};
}

double triad_rate() {
  const Arrays arrays;
  const Timing time = time_interleaved({[&] { arrays.triad(); }}, Device::cpu)[0];
  return 3 * arrays.bytes / time.median();
}

// ---- disk

static void check_io(bool done, const Path& folder, const char* call) {
  if (!done)
    fail(Exit::storage, printable(folder.string()), ": ", call, ": ", std::strerror(errno));
}

static constexpr int64_t kBlock = 4 << 20;

// Calls `move` for up to `blocks` blocks of kBlock bytes or two seconds, then `finish`. Returns
// bytes per second; sets `blocks` to the number of blocks moved.
static double rate_of(int64_t& blocks, const auto& move, const auto& finish) {
  const int64_t begin = trace::now_ns();
  int64_t done = 0;
  while (done < blocks && seconds_since(begin) < 2) move(done++ * kBlock);
  finish();
  blocks = done;
  return double(done * kBlock) / seconds_since(begin);
}

std::vector<CopyRate> disk_rates(const Path& folder) {
  std::string name = (folder / "bellows-disk-XXXXXX").string();
  const Descriptor file(mkstemp(name.data()));
  check_io(file.get() >= 0, folder, "mkstemp");
  unlink(name.c_str());
  const Tensor noise({kBlock / 4}, DType::f32);  // not zeros, which a disk may compress
  fill_uniform(noise, 0, 1, {.seed = 1});
  int64_t blocks = 64;
  const auto whole = [&](ssize_t bytes, const char* call) {
    check_io(bytes == kBlock, folder, call);
  };
  const double written = rate_of(
      blocks, [&](int64_t at) { whole(pwrite(file.get(), noise.bytes(), kBlock, at), "write"); },
      [&] { check_io(fsync(file.get()) == 0, folder, "fsync"); });
  posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  const double read = rate_of(
      blocks, [&](int64_t at) { whole(pread(file.get(), noise.bytes(), kBlock, at), "read"); },
      [] {});
  return {{"disk write", written, "written and synced"},
          {"disk read", read, "read, not from the page cache"}};
}

// ---- a GPU

std::vector<CopyRate> device_rates(int64_t bytes) {
  if (device_count(Device::cuda) == 0) return {};
  const Stream stream = current_stream(Device::cuda);
  const Tensor locked = pinned({bytes}, DType::u8);
  const Tensor pageable = full({bytes}, 1, DType::u8), source = to(Device::cuda, pageable),
               target = empty_like(source);
  std::memcpy(locked.bytes(), pageable.bytes(), size_t(bytes));
  const auto copy = [&](void* to, const void* from) -> std::function<void()> {
    return [=] { api_of(Device::cuda).copy(to, from, size_t(bytes), stream); };
  };
  const std::vector<Timing> times = time_interleaved(
      {copy(target.bytes(), locked.bytes()), copy(target.bytes(), pageable.bytes()),
       copy(locked.bytes(), source.bytes()), copy(pageable.bytes(), source.bytes()),
       copy(target.bytes(), source.bytes())},
      Device::cuda);
  const auto rate = [&](size_t i) { return double(bytes) / times[i].median(); };
  return {{"h2d pinned", rate(0), "read"},
          {"h2d pageable", rate(1), "read"},
          {"d2h pinned", rate(2), "written"},
          {"d2h pageable", rate(3), "written"},
          {"d2d", 2 * rate(4), "read + written"}};
}

double device_copy_rate(int64_t bytes) {
  const Tensor from = full({bytes}, 1, DType::u8, Device::cuda), to = empty_like(from);
  const auto copy = [&, stream = current_stream(Device::cuda)] {
    api_of(Device::cuda).copy(to.bytes(), from.bytes(), size_t(bytes), stream);
  };
  const Timing time = time_interleaved({copy}, Device::cuda)[0];
  return 2 * double(bytes) / time.median();
}

// ---- trainer bench h2d: bytes per second to a GPU and back, from pinned and pageable memory

static int run_copies(CommandLine& line, const Arguments& args) {
  if (!line.read(args)) return 0;
  const Device device = start_bench("cuda");
  std::vector<TableRow> rows;
  for (const int64_t kibibytes : {64, 1024, 16384, 262144}) {
    const std::vector<CopyRate> rates = device_rates(kibibytes << 10);
    if (rows.empty()) {
      rows.push_back({"bytes"});
      for (const CopyRate& rate : rates) rows[0].push_back(rate.what);
    }
    rows.push_back({kibibytes < 1024 ? cat(kibibytes, " KiB") : cat(kibibytes >> 10, " MiB")});
    for (const CopyRate& rate : rates) rows.back().push_back(rate_text(rate.bytes_per_s, "B/s"));
  }
  say(cat("copies on ", device_text(device), ", one after the other; medians"));
  say_part(aligned(rows, "rrrrrr"));
  say("d2d counts the bytes read and the bytes written");
  return 0;
}

static const AddVerb copies_bench({"h2d", "GB/s to a GPU and back, from pinned and pageable memory",
                                   "trainer bench h2d", run_copies},
                                  benches());

}  // namespace bellows
