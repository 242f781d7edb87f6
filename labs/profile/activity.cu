// CUPTI's activity records. A kernel is matched by its correlation id with the call that queued it,
// so no op has to push an id while it runs.
#include <cxxabi.h>
#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <unordered_map>
#include <utility>
#include "core/base/check.h"
#include "core/base/output.h"
#include "core/base/registry.h"
#include "core/base/trace.h"
#include "labs/profile/activity.h"
#include "labs/profile/cupti_library.h"

namespace bellows {

namespace {

struct Call {
  uint64_t thread;
  int64_t begin_ns, end_ns;
};
struct Records {
  std::mutex mutex;                                 // CUPTI delivers buffers on a thread of its own
  std::vector<std::pair<uint32_t, Activity>> work;  // with the correlation id
  std::unordered_map<uint32_t, Call> calls;
};
Records& records() {
  static Records& all = *new Records;
  return all;
}

// Calls of the runtime, and of the driver, which libraries use directly.
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER,
                                         CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET,
                                         CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL};
constexpr size_t kBuffer = 1 << 20;

}  // namespace

static std::string demangled(const char* name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = text ? text : name;
  std::free(text);
  return result;
}

static const char* copy_name(uint8_t kind) {
  if (kind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD) return "copy to device";
  return kind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH ? "copy to host" : "copy on device";
}

template <class Record>
static void add(Activity::Kind kind, const std::string& name, const Record& r) {
  if (r.end == 0) return;  // unfinished
  records().work.push_back(
      {r.correlationId, {kind, name, int(r.streamId), int64_t(r.start), int64_t(r.end)}});
}

static void add(const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER: {
      const auto& call = *reinterpret_cast<const CUpti_ActivityAPI*>(record);
      records().calls.try_emplace(call.correlationId,
                                  Call{call.threadId, int64_t(call.start), int64_t(call.end)});
      break;
    }
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = *reinterpret_cast<const CUpti_ActivityKernel10*>(record);
      add(Activity::kernel, demangled(kernel.name), kernel);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = *reinterpret_cast<const CUpti_ActivityMemcpy6*>(record);
      add(Activity::copy, copy_name(copy.copyKind), copy);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET:
      add(Activity::set, "memset", *reinterpret_cast<const CUpti_ActivityMemset4*>(record));
      break;
    default:
      break;
  }
}

static void give_buffer(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBuffer));
  *bytes = *buffer ? kBuffer : 0;
  *most_records = 0;  // as many as fit
}

static void take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t bytes) {
  const std::lock_guard lock(records().mutex);
  CUpti_Activity* record = nullptr;
  while (cupti()->cuptiActivityGetNextRecord(buffer, bytes, &record) == CUPTI_SUCCESS) add(record);
  std::free(buffer);
}

static uint64_t clock_ns() { return uint64_t(trace::now_ns()); }

static void disable_all() {
  for (const CUpti_ActivityKind kind : kKinds) cupti()->cuptiActivityDisable(kind);
}

static bool record() {
  const CuptiLibrary* const library = cupti();
  if (!library) return false;
  CUptiResult result = library->cuptiActivityRegisterTimestampCallback(clock_ns);
  const auto then = [&](auto call, auto... args) {
    if (result == CUPTI_SUCCESS) result = call(args...);
  };
  then(library->cuptiSetThreadIdType, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
  then(library->cuptiActivityRegisterCallbacks, give_buffer, take_buffer);
  for (const CUpti_ActivityKind kind : kKinds) then(library->cuptiActivityEnable, kind);
  if (result == CUPTI_SUCCESS) return true;
  disable_all();
  const char* reason = "unknown";
  library->cuptiGetResultString(result, &reason);
  warn(cat("CUPTI: ", reason, "; times of the device are absent"));
  return false;
}

static std::vector<Activity> take() {
  disable_all();
  // Unless forced, a buffer with unfinished work stays behind: another stream may copy a batch.
  cupti()->cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  size_t lost = 0;
  cupti()->cuptiActivityGetNumDroppedRecords(nullptr, 0, &lost);
  if (lost) warn(cat("CUPTI: ", lost, " records were lost, so the device's times are too small"));
  const std::lock_guard lock(records().mutex);
  std::vector<Activity> activities;
  for (auto& [id, activity] : std::exchange(records().work, {})) {
    if (const auto call = records().calls.find(id); call != records().calls.end()) {
      activity.thread = call->second.thread;
      activity.queued_ns = call->second.begin_ns;
      activity.queued_end_ns = call->second.end_ns;
    }
    activities.push_back(std::move(activity));
  }
  records().calls.clear();
  std::ranges::stable_sort(activities, {}, &Activity::begin_ns);
  return activities;
}

static const Provide gpu(activity_api, {record, take});

}  // namespace bellows
