#include <unistd.h>
#include <algorithm>
#include <nlohmann/json.hpp>
#include "labs/profile/analysis.h"

namespace bellows {

namespace {

class Trace {
 public:
  explicit Trace(const Recording& recording)
      : recording_(recording), origin_ns_(recording.steps.at(0).begin_ns) {}

  Json make() {
    name_all();
    const Timeline timeline = timeline_of(recording_);
    for (const Slice& slice : timeline.slices)
      if (slice.kind != SliceKind::update) add(slice);
    for (const trace::Event& span : recording_.spans)
      if (span.thread != recording_.thread)
        complete(span.name, "user_annotation", span.thread, span.begin_ns, span.end_ns,
                 Json::object());
    for (const CoreLoad& load : recording_.cores) {
      Json& event = add("C", cat("core ", load.core), 0, std::max(load.begin_ns, origin_ns_));
      event["args"] = {{"busy %", 100 * load.busy}};
    }
    for (const ThreadLoad& load : recording_.thread_loads) add(load);
    add_streams(timeline);
    return {{"schemaVersion", 1},
            {"distributedInfo", {{"backend", ""}, {"rank", 0}, {"world_size", 1}}},
            {"deviceProperties", Json::array()},
            {"displayTimeUnit", "ms"},
            {"traceEvents", std::move(events_)}};
  }

 private:
  double us(int64_t ns) const { return double(ns - origin_ns_) * 1e-3; }

  Json& add(const char* ph, const std::string& name, uint64_t thread, int64_t at_ns) {
    return events_.emplace_back(
        Json{{"ph", ph}, {"name", name}, {"pid", process_}, {"tid", thread}, {"ts", us(at_ns)}});
  }
  // Adds an event of a stream. Its process is the GPU's number, as in Kineto's traces.
  Json& add_on_gpu(const char* ph, const std::string& name, int stream, int64_t at_ns) {
    Json& event = add(ph, name, uint64_t(stream), at_ns);
    event["pid"] = chosen_gpu();
    return event;
  }

  void meta(const char* what, uint64_t thread, const Json& args) {
    add("M", what, thread, origin_ns_)["args"] = args;
  }
  void name_all() {
    meta("process_name", 0, {{"name", "trainer"}});
    meta("process_labels", 0, {{"labels", "CPU"}});
    meta("process_sort_index", 0, {{"sort_index", 0}});
    for (const auto& [thread, name] : recording_.threads) {
      meta("thread_name", thread, {{"name", cat(name, " ", thread)}});
      meta("thread_sort_index", thread, {{"sort_index", thread == recording_.thread ? 0 : 1}});
    }
  }

  void complete(const std::string& name, const char* category, uint64_t thread, int64_t begin_ns,
                int64_t end_ns, const Json& args) {
    Json& event = add("X", name, thread, begin_ns);
    event["cat"] = category;
    event["dur"] = us(end_ns) - us(begin_ns);
    event["args"] = args;
    event["args"]["External id"] = ++calls_;
  }

  void add(const Slice& slice) {
    const bool backward = slice.kind == SliceKind::backward;
    Json args = Json::object();
    if (!slice.path.empty()) args["Module Hierarchy"] = slice.path;
    if (!slice.kernels.empty()) args["Kernels"] = slice.kernels;
    if (slice.op >= 0) {
      add_operands(args, recording_.ops[slice.op]);
      args["Sequence number"] = slice.op;
      if (backward) args["Fwd thread id"] = recording_.thread;
    }
    complete(slice.name + (backward ? "_backward" : ""),
             slice.computes() ? "cpu_op" : "user_annotation", recording_.thread, slice.begin_ns,
             slice.end_ns, args);
    if (slice.op < 0) return;
    Json& flow = add(backward ? "f" : "s", "fwdbwd", recording_.thread, slice.begin_ns);
    flow["cat"] = "fwdbwd";
    flow["id"] = slice.op;
    if (backward) flow["bp"] = "e";
  }

  // A counter for each thread that is named. Its values hold from begin_ns on.
  void add(const ThreadLoad& load) {
    const auto named = recording_.threads.find(load.thread);
    if (named == recording_.threads.end()) return;
    const double percent = 100 / double(load.end_ns - load.begin_ns);
    Json& event = add("C", cat("thread ", named->second, " ", load.thread), 0,
                      std::max(load.begin_ns, origin_ns_));
    event["args"] = {{"running %", std::min(100.0, percent * double(load.running_ns))},
                     {"runnable %", std::min(100.0, percent * double(load.runnable_ns))}};
  }

  // A track for each stream, and an arrow from the call that queued the work.
  void add_streams(const Timeline& timeline) {
    if (!recording_.activities) return;
    const auto meta_on_gpu = [&](const char* what, int stream, const Json& args) {
      add_on_gpu("M", what, stream, origin_ns_)["args"] = args;
    };
    meta_on_gpu("process_name", 0, {{"name", "trainer"}});
    meta_on_gpu("process_labels", 0, {{"labels", cat("GPU ", chosen_gpu())}});
    std::map<int, int64_t> done_ns;  // by stream: slices of a track must not overlap
    for (size_t i = 0; i < timeline.queued_by.size(); ++i) {
      const Activity& a = (*recording_.activities)[i];
      if (a.begin_ns < origin_ns_) continue;
      const auto [stream, is_new] = done_ns.try_emplace(a.stream, origin_ns_);
      if (is_new) meta_on_gpu("thread_name", a.stream, {{"name", cat("stream ", a.stream)}});
      const int64_t begin = std::max(a.begin_ns, stream->second), end = std::max(a.end_ns, begin);
      stream->second = end;
      add_on_stream(a, begin, end,
                    timeline.queued_by[i] < 0 ? nullptr : &timeline.slices[timeline.queued_by[i]]);
    }
  }

  void add_on_stream(const Activity& a, int64_t begin_ns, int64_t end_ns, const Slice* by) {
    static constexpr const char* kCategories[] = {"kernel", "gpu_memcpy", "gpu_memset"};
    static constexpr const char* kCalls[] = {"cudaLaunchKernel", "cudaMemcpyAsync",
                                             "cudaMemsetAsync"};
    Json& event = add_on_gpu("X", a.name, a.stream, begin_ns);
    event["cat"] = kCategories[a.kind];
    event["dur"] = us(end_ns) - us(begin_ns);
    event["args"] = {{"device", chosen_gpu()}, {"stream", a.stream}};
    if (!by || by->kind == SliceKind::update) return;
    event["args"]["op"] = by->name;
    if (!by->path.empty()) event["args"]["Module Hierarchy"] = by->path;
    const Json correlation = {{"correlation", ++queued_}};
    event["args"].update(correlation);
    complete(kCalls[a.kind], "cuda_runtime", recording_.thread, a.queued_ns, a.queued_end_ns,
             correlation);
    if (end_ns == begin_ns) return;
    const Json arrow = {{"cat", "ac2g"}, {"id", cat("gpu", queued_)}, {"bp", "e"}};
    add("s", "ac2g", recording_.thread, a.queued_ns).update(arrow);
    add_on_gpu("f", "ac2g", a.stream, begin_ns).update(arrow);
  }

  static void add_operands(Json& args, const RecordedOp& op) {
    Json dims = Json::array(), types = Json::array();
    for (const Operand& x : op.inputs) {
      dims.push_back(Json::array());
      if (x.defined)
        for (const int64_t dim : x.shape) dims.back().push_back(dim);
      types.push_back(x.defined ? cat(x.dtype) : "");
      if (*x.layout && !args.contains("Layout")) args["Layout"] = x.layout;
    }
    args["Input Dims"] = dims;
    args["Input type"] = types;
  }

  const Recording& recording_;
  const int64_t origin_ns_;
  const int process_ = getpid();
  int64_t calls_ = 0, queued_ = 0;
  Json events_ = Json::array();
};

}  // namespace

Json chrome_trace(const Recording& recording) { return Trace(recording).make(); }

}  // namespace bellows
