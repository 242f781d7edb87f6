#include "core/tensor/autotune.h"
#include <omp.h>
#include <cmath>
#include "core/base/disk_cache.h"
#include "core/base/output.h"
#include "core/base/statistics.h"
#include "core/base/trace.h"
#include "core/device/allocator.h"
#include "core/device/device_info.h"
#include "core/device/graph.h"
#include "core/device/kernel_options.h"
#include "core/device/sync_guard.h"
#include "core/device/timer.h"
#include "core/device/topology.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "core/tensor/tuned_kernel.h"

namespace bellows {

static constexpr int kWarmUps = 3, kMostRuns = 20, kFewestRuns = 5;
static constexpr double kHopeless = 4;  // slower than this many times the best in warm-up: dropped
static constexpr double kMostMs = 200;  // limit per candidate, once it has kFewestRuns
static constexpr double kEqual = 1.01;

// ---- timing

// Returns memory to write before each run, so that no candidate finds its input in a cache: larger
// than the GPU's L2 cache; on the CPU, twice a core's own caches.
static Tensor flush_buffer(Device device) {
  const auto l2_bytes = api_of(device).l2_bytes;
  const size_t bytes = l2_bytes ? l2_bytes() / 4 * 5 : size_t(omp_get_max_threads()) << 22;
  return Tensor(Shape{int64_t(bytes / sizeof(float))}, DType::f32, device);
}

// Writes on all threads, because each core has its own caches, or by a memset on the device.
static void write(const Tensor& flush, Stream stream) {
  if (flush.device() == Device::cpu) return fill(flush, 1);
  api_of(flush.device()).set(flush.bytes(), 1, flush.nbytes(), stream);
}

static double time_ms(const Candidate& candidate, const Tensor& flush) {
  const Stream stream = current_stream(flush.device());
  write(flush, stream);
  const Moment begin(stream);
  candidate.run();
  const Moment end(stream);
  synchronize(stream);
  return end.ms_since(begin);
}

// Returns the minimum time, because other work may have delayed some runs. Returns nullopt if the
// candidate fails for lack of memory or support.
static std::optional<double> warm_up(const Candidate& candidate, const Tensor& flush) {
  try {
    double ms = INFINITY;
    for (int i = 0; i < kWarmUps; ++i) ms = std::min(ms, time_ms(candidate, flush));
    return ms;
  } catch (const std::exception&) {
    synchronize(current_stream(flush.device()));  // throws if the device itself has failed
    return std::nullopt;
  }
}

// Deadline of the innermost search on this thread; 0 if none runs.
static thread_local int64_t search_ends_ns = 0;

namespace {
struct SearchTime {  // limits a search and counts what it takes
  SearchTime() { search_ends_ns = begin + int64_t(kernel_options().search_seconds * 1e9); }
  ~SearchTime() {
    search_ends_ns = outer;
    trace::count<"autotune.search_us">((trace::now_ns() - begin) / 1000);
  }
  SearchTime(SearchTime&&) = delete;
  const int64_t begin = trace::now_ns(), outer = search_ends_ns;
};
}  // namespace

bool search_time_is_up() { return search_ends_ns && trace::now_ns() >= search_ends_ns; }

std::optional<size_t> fastest(Device device, const Candidates& candidates) {
  const SyncGuard expected(OnSync::ignore);
  const PoolScope shared(nullptr);  // memory of the search is not a graph's
  const Tensor flush = flush_buffer(device);
  const int64_t most_bytes = kernel_options().workspace_mb << 20;
  std::vector<TimedCandidate> timed;
  double best = INFINITY;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!timed.empty() && search_time_is_up()) break;
    if (candidates[i].workspace_bytes > most_bytes) continue;
    const auto ms = warm_up(candidates[i], flush);
    if (!ms) continue;
    timed.push_back({i, candidates[i].workspace_bytes, {*ms}});
    best = std::min(best, *ms);
  }
  std::erase_if(timed, [&](const TimedCandidate& c) { return c.ms[0] > kHopeless * best; });
  const int64_t begin = trace::now_ns();
  const double most_ms = kMostMs * double(timed.size());
  for (int run = 0; run < kMostRuns; ++run) {
    if (search_time_is_up()) break;
    if (run >= kFewestRuns && double(trace::now_ns() - begin) * 1e-6 > most_ms) break;
    for (TimedCandidate& c : timed) c.ms.push_back(time_ms(candidates[c.place], flush));
  }
  return winner(timed);
}

std::optional<size_t> winner(std::vector<TimedCandidate> timed) {
  if (timed.empty()) return std::nullopt;
  const auto time = [](const TimedCandidate& c) { return median(c.ms); };
  const double best = time(*std::ranges::min_element(timed, {}, time));
  std::erase_if(timed, [&](const TimedCandidate& c) { return time(c) > best * kEqual; });
  return std::ranges::min_element(timed, {}, &TimedCandidate::workspace_bytes)->place;
}

// ---- comparison with the plain implementation

// Largest |got - plain| / |plain| in the L2 norm. Both sum products in f32 (f64 for f64), in
// different orders, and round to the dtype; cancellation may cost some digits.
static double tolerance(DType dtype) {
  if (dtype == DType::f64) return 1e-9;
  if (dtype == DType::bf16) return 0x1p-6;
  return dtype == DType::f16 || kernel_options().tf32 ? 0x1p-8 : 1e-4;
}

static double norm(const Tensor& t) {
  const Tensor list[] = {t};
  return double(to(Device::cpu, norm_of(list)).data<float>()[0]);
}

std::optional<std::string> difference(const std::vector<Tensor>& got,
                                      const std::vector<Tensor>& plain) {
  const SyncGuard expected(OnSync::ignore);
  bool finite = true;
  for (size_t i = 0; i < plain.size(); ++i) {
    if (!plain[i].defined()) continue;
    const DType dtype = plain[i].dtype(), computed = dtype == DType::f64 ? DType::f64 : DType::f32;
    const Tensor error = clone(cast(contiguous(plain[i]), computed));
    const double size = norm(error);
    finite = finite && std::isfinite(size);
    if (!std::isfinite(size)) continue;
    add_into(error, cast(contiguous(got[i]), computed).view_as(error.shape()), -1);
    const double apart = norm(error);
    if (!(apart <= tolerance(dtype) * size))
      return cat("its values differ from the plain kernel's by ", apart / size,
                 " of their norm, more than ", tolerance(dtype));
  }
  return finite ? std::optional<std::string>("") : std::nullopt;
}

// ---- choosing

static void count_call(bool hit) {
  hit ? trace::count<"autotune.hits">() : trace::count<"autotune.misses">();
}

bool Tuning::due() {
  const Autotune mode = kernel_options().autotune;
  if (mode == Autotune::heuristic) return false;
  if (made_) return count_call(found_), false;
  if (capturing() || (looked_up_ && mode == Autotune::found)) return count_call(false), false;
  return true;
}

static void complain_once(const std::string& name) {
  static bool complained = false;
  if (!std::exchange(complained, true))
    warn("plans of an earlier run are stale and ignored, such as " + name);
}

std::optional<size_t> Tuning::make(Device device, const std::string& problem, const Find& find) {
  static DiskCache cache;
  return make(device, problem, find, cache);
}

std::optional<size_t> Tuning::make(Device device, const std::string& problem, const Find& find,
                                   DiskCache& cache) {
  const std::string name = cat("plan-", device), key = tuned_machine(device) + "\n" + problem;
  if (!std::exchange(looked_up_, true))
    if (const auto kept = cache.find(name, key)) {
      found_ = made_ = !kept->empty() && !find(*kept).empty();
      if (made_) {
        cache.is_own(name, key) ? trace::count<"autotune.repeated">()
                                : trace::count<"autotune.kept">();
        return count_call(true), 0;
      }
      complain_once(*kept);
    }
  if (kernel_options().autotune != Autotune::benchmark) return count_call(false), std::nullopt;
  trace::count<"autotune.searches">();
  const int64_t reserved = allocator_stats(device).reserved;
  const SearchTime limited;
  const Candidates candidates = find("");
  const std::optional<size_t> best = fastest(device, candidates);
  // Releases the outputs and workspaces of all candidates, which no step needs.
  if (allocator_stats(device).reserved > reserved) empty_cache(device);
  made_ = true;  // even if no candidate can run: do not search again
  found_ = best.has_value();
  if (best) cache.keep(name, key, candidates[*best].name);
  return best;
}

// ---- key of a choice

std::string tuned_machine(Device device) {
  if (device == Device::cpu) return cat(cpu_model(), ", threads ", omp_get_max_threads());
  static const CudaReport report = cuda_report();
  return cat(report.gpus.empty() ? "?" : report.gpu().name, ", driver ", report.driver_release);
}

std::ostream& operator<<(std::ostream& out, const Signature& s) {
  if (!s.defined) return out << "none";
  return out << s.dtype << s.shape << '/' << s.strides;
}

}  // namespace bellows
