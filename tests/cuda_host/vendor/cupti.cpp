// Replaces labs/profile/cupti_library.cu.
#include "tests/cuda_host/vendor/cupti.h"
#include <unistd.h>
#include <cstring>
#include <set>
#include <utility>
#include "core/base/output.h"
#include "labs/profile/cupti_library.h"
#include "tests/cuda_host/runtime.h"

using namespace cuda_host;

namespace {

std::set<CUpti_ActivityKind> kinds;
std::vector<std::vector<std::byte>> records;
CUpti_TimestampCallbackFunc clock_of_client = nullptr;
CUpti_BuffersCallbackRequestFunc request = nullptr;
CUpti_BuffersCallbackCompleteFunc complete = nullptr;

template <class Record> void append(const Record& record) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(&record);
  records.emplace_back(bytes, bytes + sizeof(record));
}
template <class Record> void put(const Record& record) {
  if (kinds.contains(record.kind)) append(record);
}

const char* permanent_name(const std::string& name) {
  static std::set<std::string> names;
  return names.insert(name).first->c_str();
}

template <class Record> Record record_of(CUpti_ActivityKind kind, const Ran& ran) {
  Record record{};
  record.kind = kind;
  record.start = uint64_t(ran.begin_ns);
  record.end = uint64_t(ran.end_ns);
  record.streamId = uint32_t(ran.stream);
  record.correlationId = ran.correlation;
  return record;
}

void note(const Ran& ran) {
  if (ran.kind == Task::copy) {
    auto copy = record_of<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY, ran);
    copy.copyKind =
        uint8_t(ran.direction == cudaMemcpyHostToDevice   ? CUPTI_ACTIVITY_MEMCPY_KIND_HTOD
                : ran.direction == cudaMemcpyDeviceToHost ? CUPTI_ACTIVITY_MEMCPY_KIND_DTOH
                                                          : CUPTI_ACTIVITY_MEMCPY_KIND_DTOD);
    put(copy);
  } else if (ran.kind == Task::set) {
    put(record_of<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET, ran));
  } else {
    auto kernel = record_of<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, ran);
    kernel.name = permanent_name(ran.name);
    put(kernel);
  }
}

uint32_t note_call() {
  static uint32_t calls = 0;
  CUpti_ActivityAPI call{};
  call.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  call.start = clock_of_client();
  call.end = clock_of_client();
  call.threadId = uint32_t(gettid());
  call.correlationId = ++calls;
  put(call);
  return calls;
}

// Runs a function of the library.
CUptiResult run(const std::function<void()>& body) {
  const std::lock_guard lock(runtime.mutex);
  ++cupti_library.calls;
  if (cupti_library.refuses) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  body();
  cupti_library.enabled = int(kinds.size());
  if (kinds.empty())
    runtime.watch = {};
  else
    runtime.watch = {[] { return clock_of_client(); }, note_call, note};
  return CUPTI_SUCCESS;
}

// Delivers each record in a buffer of its own. As there always may be unfinished work, a forced
// flush also delivers a record of that, and any other nothing.
CUptiResult flush(uint32_t flags) {
  std::vector<std::vector<std::byte>> all;
  const CUptiResult result = run([&] {
    if (!(flags & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED)) return;
    auto unfinished =
        record_of<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, Ran{});
    unfinished.name = "unfinished";
    append(unfinished);
    all = std::exchange(records, {});
  });
  for (const std::vector<std::byte>& record : all) {
    uint8_t* buffer = nullptr;
    size_t size = 0, most = 0;
    request(&buffer, &size, &most);
    std::memcpy(buffer, record.data(), record.size());
    complete(nullptr, 0, buffer, size, record.size());
  }
  return result;
}

CUptiResult next_record(uint8_t* buffer, size_t, CUpti_Activity** record) {
  if (*record) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(buffer);
  return CUPTI_SUCCESS;
}

}  // namespace

namespace bellows {

const CuptiLibrary* cupti() {
  static const CuptiLibrary functions = {
      .loaded = Library("stand-in"),
      .cuptiActivityRegisterTimestampCallback =
          [](CUpti_TimestampCallbackFunc f) { return run([=] { clock_of_client = f; }); },
      .cuptiSetThreadIdType = [](CUpti_ActivityThreadIdType) { return run([] {}); },
      .cuptiActivityRegisterCallbacks =
          [](CUpti_BuffersCallbackRequestFunc ask, CUpti_BuffersCallbackCompleteFunc give) {
            return run([=] { request = ask, complete = give; });
          },
      .cuptiActivityEnable =
          [](CUpti_ActivityKind kind) { return run([=] { kinds.insert(kind); }); },
      .cuptiActivityDisable =
          [](CUpti_ActivityKind kind) { return run([=] { kinds.erase(kind); }); },
      .cuptiActivityFlushAll = flush,
      .cuptiActivityGetNextRecord = next_record,
      .cuptiActivityGetNumDroppedRecords = [](CUcontext, uint32_t,
                                              size_t* lost) { return run([=] { *lost = 0; }); },
      .cuptiGetResultString =
          [](CUptiResult, const char** text) {
            *text = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
            return CUPTI_SUCCESS;
          },
  };
  if (!cupti_library.missing) return &functions;
  warn("libcupti.so.13: no such library; times of the device are absent");
  return nullptr;
}

}  // namespace bellows
