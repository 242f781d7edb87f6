// Runs the time slices of all arms alternately; writes and parses the lines that arms report.
#include <cmath>
#include <deque>
#include "trainer/ab/arms.h"
#include "trainer/ab/process.h"

namespace bellows {

std::vector<size_t> slice_order(size_t arms, int64_t blocks) {
  std::vector<size_t> order;
  for (int64_t block = 0; block < blocks; ++block)
    for (size_t place = 0; place < arms; ++place)
      order.push_back(block % 2 ? arms - 1 - place : place);
  return order;
}

std::vector<AbProcess> interleave(const std::vector<ArmCommand>& arms, int64_t blocks,
                                  double timeout_s, const Signals& signals, const std::string& verb,
                                  const AfterBlock& after_block) {
  const auto end_by_signal = [&] {
    if (const int signal = signals.stop())
      fail(static_cast<Exit>(128 + signal), verb, ": interrupted by ", name_of_signal(signal),
           " before the first result");
  };
  std::vector<AbProcess> measured(arms.size());
  std::deque<ArmProcess> processes;
  const auto run_slice = [&](size_t arm) {
    end_by_signal();
    for (size_t other = 0; other < processes.size(); ++other)
      if (other != arm && !processes[other].stopped())
        fail(Exit::internal, arms[other].name, " ran during another arm's time slice");
    const AbBlock block = parse_block(processes[arm].run_slice());
    after_block(block);
    return block;
  };
  for (size_t arm = 0; arm < arms.size(); ++arm) {
    processes.emplace_back(arms[arm].name, arms[arm].argv, timeout_s, end_by_signal);
    measured[arm].warmup = run_slice(arm);
  }
  for (const size_t arm : slice_order(arms.size(), blocks))
    measured[arm].blocks.push_back(run_slice(arm));
  for (size_t arm = 0; arm < arms.size(); ++arm) {
    measured[arm].end = parse_end(processes[arm].finish());
    measured[arm].cpu_s_waiting = processes[arm].cpu_seconds_waiting();
  }
  return measured;
}

// ---- lines

// Calls field(key, member) for each member, in the order of the line.
static void each_field(AbBlock& block, const auto& field) {
  field("steps", block.steps);
  field("wall_s", block.wall_s);
  field("cpu_s", block.cpu_s);
  field("waited_s", block.waited_s);
  field("counters", block.counters);
  field("reader_s", block.reader_s);
  field("energy_j", block.energy_j);
  field("epoch_gaps_s", block.epoch_gaps_s);
}
static void each_field(AbEnd& end, const auto& field) {
  field("losses", end.losses);
  field("counters", end.counters);
  field("threads", end.threads);
  field("peak_tensor_bytes", end.peak_tensor_bytes);
  field("peak_resident_bytes", end.peak_resident_bytes);
  field("samples", end.samples);
  field("reached_target", end.reached_target);
  field("pixels", end.pixels);
}

template <class Report> static std::string line_of(Report report) {
  Json json;
  each_field(report, [&](const char* key, const auto& value) { json[key] = value; });
  return to_line(json);
}

static void read_value(const Json& json, auto& value) { json.get_to(value); }
static void read_value(const Json& json, std::vector<double>& values) {  // JSON has no NaN
  for (const Json& value : json) values.push_back(value.is_null() ? NAN : value.get<double>());
}

template <class Report> static Report parsed(const std::string& line) try {
  const Json json = Json::parse(line);
  Report report;
  each_field(report, [&](const char* key, auto& value) { read_value(json.at(key), value); });
  return report;
} catch (const Json::exception& error) {
  fail(Exit::internal, "arms: an arm reported '", line.substr(0, 100), "': ", error.what());
}

std::string to_line(const AbBlock& block) { return line_of(block); }
std::string to_line(const AbEnd& end) { return line_of(end); }
AbBlock parse_block(const std::string& line) { return parsed<AbBlock>(line); }
AbEnd parse_end(const std::string& line) { return parsed<AbEnd>(line); }

}  // namespace bellows
