// Activity of a GPU, for profiles: the kernels, copies and memsets that it ran, and when.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace bellows {

// All times are those of trace::now_ns().
struct Activity {
  enum Kind { kernel, copy, set };
  Kind kind;
  std::string name;          // "void forward<float>(...)", "copy to device", "memset"
  int stream;                // its number
  int64_t begin_ns, end_ns;  // on the device
  uint64_t thread = 0;       // that queued it; 0: unknown
  int64_t queued_ns = 0, queued_end_ns = 0;  // begin and end of the call that queued it
};

// labs/profile/activity.cu provides them; null without CUPTI, of which nothing is loaded until
// the first call.
struct ActivityApi {
  // Starts recording. A process can record once at a time. Returns false, after one warning, if
  // this is impossible: without the permission, or beside another profiler.
  bool (*record)() = nullptr;
  // Ends recording. Returns what has ended on the device, by begin: synchronize first.
  std::vector<Activity> (*take)() = nullptr;
};
inline constinit ActivityApi activity_api = {};

}  // namespace bellows
