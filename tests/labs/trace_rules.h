// The rules by which Perfetto imports a JSON trace.
#pragma once
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>
#include "core/base/check.h"
#include "core/base/json.h"

namespace bellows {

// Returns what Perfetto's JSON importer would drop or complain of, by its trace_processor
// (json_trace_parser_impl.cc, slice_tracker.cc, flow_tracker.cc), and breaks of Kineto's format.
inline std::vector<std::string> trace_complaints(const Json& trace) {
  std::vector<std::string> found;
  const auto check = [&](bool fine, const Json& event, const char* rule) {
    if (!fine) found.push_back(cat(rule, ": ", event.dump()));
  };
  check(trace.value("schemaVersion", 0) == 1 && trace.contains("traceEvents"), {}, "not Kineto's");
  struct Slice {
    int64_t begin, end;
    const Json* event;
  };
  using Track = std::pair<int64_t, int64_t>;  // process and thread
  const auto track_of = [](const Json& e) { return Track(e["pid"], e["tid"]); };
  std::map<Track, std::vector<Slice>> tracks;
  const auto ns = [](double us) { return std::llround(us * 1000); };
  for (const Json& e : trace.at("traceEvents")) {
    const std::string ph = e.value("ph", "");
    check(ph == "X" || ph == "M" || ph == "C" || ph == "s" || ph == "f", e, "phase");
    check(!e.value("name", "").empty(), e, "name");
    for (const char* id : {"pid", "tid"})
      check(e.contains(id) && e[id].is_number_integer() && e[id] >= 0 && e[id] < 1LL << 32, e, id);
    if (!e.contains("ts") || !e["ts"].is_number()) {
      check(false, e, "ts");
      continue;
    }
    if (ph == "X") {
      check(e.value("dur", -1.) >= 0, e, "dur");
      check(e.contains("cat") && e["args"].is_object(), e, "cat and args");
      const int64_t begin = ns(e["ts"]);
      tracks[track_of(e)].push_back({begin, begin + ns(e["dur"]), &e});
    } else if (ph == "M") {
      const bool order = e["name"].get<std::string>().ends_with("_sort_index");
      const char* key = order ? "sort_index" : e["name"] == "process_labels" ? "labels" : "name";
      check(e.contains("args") && e["args"].contains(key), e, "metadata without its argument");
    } else if (ph == "C") {
      check(e.contains("args") && !e["args"].empty(), e, "counter without a value");
      for (const Json& value : e["args"]) check(value.is_number(), e, "counter of no number");
    }
  }
  // Slices of a track nest: one that overlaps the end of another is dropped.
  for (auto& [track, slices] : tracks) {
    std::ranges::stable_sort(slices, {}, &Slice::begin);
    std::vector<int64_t> open;
    for (const Slice& s : slices) {
      while (!open.empty() && open.back() <= s.begin) open.pop_back();
      check(open.empty() || s.end <= open.back(), *s.event, "overlaps the slice around it");
      open.push_back(s.end);
    }
  }
  // A flow begins and ends in slices, and each end has one begin.
  std::map<std::string, int> starts;
  for (const Json& e : trace.at("traceEvents")) {
    const std::string ph = e["ph"];
    if ((ph != "s" && ph != "f") || !e.contains("ts")) continue;
    check(e.contains("cat") && e.contains("id"), e, "flow without cat or id");
    const int64_t at = ns(e["ts"]);
    check(std::ranges::any_of(tracks[track_of(e)],
                              [&](const Slice& s) { return s.begin <= at && at < s.end; }),
          e, "flow outside of slices");
    int& count = starts[e["id"].dump()];
    check(ph == "s" ? count++ == 0 : count-- == 1, e, "flow that does not begin, or begins twice");
    check(ph == "s" || e.value("bp", "") == "e", e, "flow that ends in the next slice");
  }
  return found;
}

}  // namespace bellows
