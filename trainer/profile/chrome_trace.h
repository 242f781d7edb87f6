// A recording as a trace in the format of PyTorch's profiler (Kineto), for Perfetto,
// chrome://tracing and HolisticTraceAnalysis.
#pragma once
#include "core/base/json.h"
#include "trainer/profile/timeline.h"

namespace bellows {

// Times are in microseconds since the begin of the window. A flow connects each op with its
// backward.
Json chrome_trace(const Recording& recording);

}  // namespace bellows
