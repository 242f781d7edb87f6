#include "labs/profile/recorder.h"
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <utility>
#include "core/base/file.h"
#include "core/device/allocator.h"
#include "core/device/sync_guard.h"
#include "core/device/threads.h"
#include "core/device/topology.h"
#include "trainer/log/meter.h"
#include "trainer/session/session.h"
#include "trainer/state/training_state.h"
#include "trainer/verbs/step_work.h"

namespace bellows {

namespace {
struct CoreReading {
  int64_t at_ns = 0;
  CpuTicks ticks = {};
};
}  // namespace

// The two numbers in schedstat are ns since the thread began: on a core, and ready without one.
static void read_threads(Recording& recording, std::map<uint64_t, ThreadLoad>& totals) {
  for (const Path& task : paths_in("/proc/self/task", Exit::internal)) {
    ThreadLoad now = {.thread = std::stoull(task.filename()), .end_ns = trace::now_ns()};
    // A thread that has just ended has no file any more.
    if (!(std::ifstream(task / "schedstat") >> now.running_ns >> now.runnable_ns)) continue;
    const auto [seen, is_new] = totals.try_emplace(now.thread, now);
    const ThreadLoad before = std::exchange(seen->second, now);
    if (is_new) continue;
    recording.thread_loads.push_back({now.thread, before.end_ns, now.end_ns,
                                      now.running_ns - before.running_ns,
                                      now.runnable_ns - before.runnable_ns});
  }
}

static void read_cores(Recording& recording, std::map<int, CoreReading>& last) {
  const std::vector<int> ours = process_cores();
  const int64_t now = trace::now_ns();
  for (const auto& [core, ticks] : ticks_by_core()) {
    if (!std::ranges::count(ours, core)) continue;
    CoreReading& before = last[core];
    if (ticks.all == before.ticks.all) continue;  // no tick since then
    if (before.at_ns)
      recording.cores.push_back({core, before.at_ns, now, busy_share(before.ticks, ticks)});
    before = {now, ticks};
  }
}

// Until `over`, adds how busy the cores are, every 20 ms, and what the threads of this process do,
// every 100 ms, because that takes 10 us for each of them. The system counts in ticks of up to
// 10 ms, so one value may be wrong by a few tenths, but hardly their mean.
static void watch(Recording& recording, std::binary_semaphore& over) {
  std::map<int, CoreReading> cores;
  std::map<uint64_t, ThreadLoad> threads;
  for (int n = 0;; ++n) {
    const bool last = n > 0 && over.try_acquire_for(std::chrono::milliseconds(20));
    read_cores(recording, cores);
    if (last || n % 5 == 0) read_threads(recording, threads);
    if (last) return;
  }
}

static std::map<std::string, int64_t> held_by(const Session& session) {
  std::map<std::string, int64_t> held;
  int64_t other = allocator_stats(session.device).allocated;
  const auto add = [&](const std::string& name, const Tensor& tensor) {
    held[name] += int64_t(tensor.nbytes());
    other -= int64_t(tensor.nbytes());
  };
  for (const NamedTensors& weights : {session.parameters, session.model->buffers()})
    for (const auto& [name, tensor] : weights) {
      const size_t dot = name.rfind('.');
      add(dot == std::string::npos ? "weights" : name.substr(0, dot), tensor);
    }
  for (const NamedTensor& state : session.optimizer->state()) add("optimizer state", state.tensor);
  held["other"] += std::max<int64_t>(0, other);
  return held;
}

Recorder::Recorder(const Session& session, int64_t first, int64_t last)
    : session_(session), first_(first), last_(last) {
  recording_.thread = uint64_t(gettid());
  recording_.device = session.device;
}

Recorder::~Recorder() {
  end_watch();
  if (ops_ && recording_.activities) activity_api.take();
  trace::collect(false);
  trace::allocations_logged = trace::kernels_logged = false;
}

void Recorder::end_watch() {
  if (!watch_.joinable()) return;
  window_over_.release();
  watch_.join();
}

void Recorder::finish_device() const {
  const SyncGuard expected(OnSync::ignore);
  synchronize(current_stream(session_.device));
}

void Recorder::start() {
  finish_device();
  if (recording_.device != Device::cpu) {
    if (!activity_api.record)
      warn("this binary was built without CUPTI; times of the device are absent");
    else if (activity_api.record())
      recording_.activities.emplace();
  }
  recording_.update = work_of_update(session_);
  recording_.held = held_by(session_);
  watch_ = start_thread("core watch", [this] { watch(recording_, window_over_); });
  trace::take_events();
  trace::take_allocations();
  trace::take_kernels();
  ops_.emplace();
  trace::allocations_logged = trace::kernels_logged = true;
  trace::collect(true);
}

void Recorder::stop() {
  end_watch();
  trace::collect(false);
  trace::allocations_logged = trace::kernels_logged = false;
  recording_.kernels = trace::take_kernels();
  recording_.ops = std::move(ops_->ops);
  ops_.reset();
  if (recording_.activities) recording_.activities = activity_api.take();
  recording_.allocations = trace::take_allocations();
  std::erase_if(recording_.allocations,
                [&](const trace::Allocation& a) { return a.device != int(recording_.device); });
  for (const Path& task : paths_in("/proc/self/task", Exit::internal))
    recording_.threads[std::stoull(task.filename())] = first_line(task / "comm");
  recording_.threads[recording_.thread] = "compute";
}

void Recorder::after_update(const Position& at) {
  if (at.step == last_) finish_device();  // the last update lasts until the device has run it
  if (at.step > first_ && at.step <= last_) {
    recording_.steps.push_back({at.step - 1, begin_ns_, trace::now_ns()});
    std::ranges::move(trace::take_events(), std::back_inserter(recording_.spans));
  }
  if (at.step == first_) start();
  if (at.step == last_) stop();
  begin_ns_ = trace::now_ns();
}

Recording Recorder::take() { return std::exchange(recording_, {}); }

}  // namespace bellows
