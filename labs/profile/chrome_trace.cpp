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
    const Timeline timeline = timeline_of(recording_);
    name_process(process_, "CPU");
    meta("process_sort_index", process_, 0, {{"sort_index", 0}});
    for (const auto& [thread, name] : recording_.threads) {
      meta("thread_name", process_, thread, {{"name", cat(name, " ", thread)}});
      meta("thread_sort_index", process_, thread,
           {{"sort_index", thread == recording_.thread ? 0 : 1}});
    }
    for (const Slice& slice : timeline.slices)
      if (slice.kind != SliceKind::update) add(slice);
    for (const trace::Event& span : recording_.spans)
      if (span.thread != recording_.thread)
        call(span.name, "user_annotation", span.thread, span.begin_ns, span.end_ns, Json::object());
    for (const CoreLoad& load : recording_.cores)
      counter(cat("core ", load.core), load.begin_ns, {{"busy %", 100 * load.busy}});
    for (const ThreadLoad& load : recording_.thread_loads) add(load);
    if (recording_.activities) add_streams(timeline);
    return {{"schemaVersion", 1},
            {"distributedInfo", {{"backend", ""}, {"rank", 0}, {"world_size", 1}}},
            {"deviceProperties", Json::array()},
            {"displayTimeUnit", "ms"},
            {"traceEvents", std::move(events_)}};
  }

 private:
  double us(int64_t ns) const { return double(ns - origin_ns_) * 1e-3; }

  // `thread`: of a GPU, whose process is its number as in Kineto's traces, the stream.
  void add(const char* ph, const std::string& name, int process, uint64_t thread, int64_t at_ns,
           const Json& more) {
    Json& event = events_.emplace_back(
        Json{{"ph", ph}, {"name", name}, {"pid", process}, {"tid", thread}, {"ts", us(at_ns)}});
    event.update(more);
  }
  void meta(const char* what, int process, uint64_t thread, const Json& args) {
    add("M", what, process, thread, origin_ns_, {{"args", args}});
  }
  void name_process(int process, const std::string& label) {
    meta("process_name", process, 0, {{"name", "trainer"}});
    meta("process_labels", process, 0, {{"labels", label}});
  }
  // The values hold from begin_ns on.
  void counter(const std::string& name, int64_t begin_ns, const Json& args) {
    add("C", name, process_, 0, std::max(begin_ns, origin_ns_), {{"args", args}});
  }
  void call(const std::string& name, const char* category, uint64_t thread, int64_t begin_ns,
            int64_t end_ns, Json args) {
    args["External id"] = ++calls_;
    add("X", name, process_, thread, begin_ns,
        {{"cat", category}, {"dur", us(end_ns) - us(begin_ns)}, {"args", args}});
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
    call(slice.name + (backward ? "_backward" : ""),
         slice.computes() ? "cpu_op" : "user_annotation", recording_.thread, slice.begin_ns,
         slice.end_ns, args);
    if (slice.op < 0) return;
    Json flow = {{"cat", "fwdbwd"}, {"id", slice.op}};
    if (backward) flow["bp"] = "e";
    add(backward ? "f" : "s", "fwdbwd", process_, recording_.thread, slice.begin_ns, flow);
  }

  // A counter for each thread that is named.
  void add(const ThreadLoad& load) {
    const auto named = recording_.threads.find(load.thread);
    if (named == recording_.threads.end()) return;
    const double percent = 100 / double(load.end_ns - load.begin_ns);
    counter(cat("thread ", named->second, " ", load.thread), load.begin_ns,
            {{"running %", std::min(100.0, percent * double(load.running_ns))},
             {"runnable %", std::min(100.0, percent * double(load.runnable_ns))}});
  }

  // A track for each stream, and an arrow from the call that queued the work.
  void add_streams(const Timeline& timeline) {
    name_process(chosen_gpu(), cat("GPU ", chosen_gpu()));
    std::map<int, int64_t> done_ns;  // by stream: slices of a track must not overlap
    for (size_t i = 0; i < timeline.queued_by.size(); ++i) {
      Activity a = (*recording_.activities)[i];
      if (a.begin_ns < origin_ns_) continue;
      const auto [stream, is_new] = done_ns.try_emplace(a.stream, origin_ns_);
      if (is_new) meta("thread_name", chosen_gpu(), a.stream, {{"name", cat("stream ", a.stream)}});
      a.begin_ns = std::max(a.begin_ns, stream->second);
      stream->second = a.end_ns = std::max(a.end_ns, a.begin_ns);
      add(a, timeline.queued_by[i] < 0 ? nullptr : &timeline.slices[timeline.queued_by[i]]);
    }
  }

  void add(const Activity& a, const Slice* by) {
    static constexpr const char* kCategories[] = {"kernel", "gpu_memcpy", "gpu_memset"};
    static constexpr const char* kCalls[] = {"cudaLaunchKernel", "cudaMemcpyAsync",
                                             "cudaMemsetAsync"};
    Json args = {{"device", chosen_gpu()}, {"stream", a.stream}};
    const bool queued = by && by->kind != SliceKind::update;
    if (queued) {
      args["op"] = by->name;
      if (!by->path.empty()) args["Module Hierarchy"] = by->path;
      args["correlation"] = ++queued_;
    }
    add("X", a.name, chosen_gpu(), a.stream, a.begin_ns,
        {{"cat", kCategories[a.kind]}, {"dur", us(a.end_ns) - us(a.begin_ns)}, {"args", args}});
    if (!queued) return;
    call(kCalls[a.kind], "cuda_runtime", recording_.thread, a.queued_ns, a.queued_end_ns,
         {{"correlation", queued_}});
    if (a.end_ns == a.begin_ns) return;
    const Json arrow = {{"cat", "ac2g"}, {"id", cat("gpu", queued_)}, {"bp", "e"}};
    add("s", "ac2g", process_, recording_.thread, a.queued_ns, arrow);
    add("f", "ac2g", chosen_gpu(), a.stream, a.begin_ns, arrow);
  }

  static void add_operands(Json& args, const RecordedOp& op) {
    Json dims = Json::array(), types = Json::array();
    for (const Operand& x : op.inputs) {
      dims.push_back(x.defined ? Json(std::vector(x.shape.begin(), x.shape.end())) : Json::array());
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
