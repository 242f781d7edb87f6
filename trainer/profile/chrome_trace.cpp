#include "trainer/profile/chrome_trace.h"
#include <unistd.h>

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
    for (const Span& span : recording_.spans)
      if (span.thread != recording_.thread)
        complete(span.name, "user_annotation", span.thread, span.begin_ns, span.end_ns,
                 Json::object());
    for (const CoreLoad& load : recording_.cores) {
      Json& event = add("C", cat("core ", load.core), 0, std::max(load.begin_ns, origin_ns_));
      event["args"] = {{"busy %", 100 * load.busy}};
    }
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
  int64_t calls_ = 0;
  Json events_ = Json::array();
};

}  // namespace

Json chrome_trace(const Recording& recording) { return Trace(recording).make(); }

}  // namespace bellows
