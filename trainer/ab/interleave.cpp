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

std::vector<AbProcess> interleave(const std::vector<ArmCommand>& arms, const ArmOptions& options,
                                  const Signals& signals, const AfterBlock& after_block) {
  const auto end_by_signal = [&] {
    if (const int signal = signals.stop())
      fail(static_cast<Exit>(128 + signal), options.verb, ": interrupted by ",
           name_of_signal(signal), " before the first result");
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
    processes.emplace_back(arms[arm].name, arms[arm].argv, options.timeout_s, end_by_signal);
    measured[arm].warmup = run_slice(arm);
  }
  for (const size_t arm : slice_order(arms.size(), options.blocks))
    measured[arm].blocks.push_back(run_slice(arm));
  for (size_t arm = 0; arm < arms.size(); ++arm) {
    measured[arm].end = parse_end(processes[arm].finish());
    measured[arm].cpu_s_waiting = processes[arm].cpu_seconds_waiting();
  }
  return measured;
}

// ---- lines

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AbBlock, steps, wall_s, cpu_s, waited_s, counters, reader_s,
                                   energy_j, epoch_gaps_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AbEnd, losses, counters, threads, peak_tensor_bytes,
                                   peak_resident_bytes, samples, reached_target, pixels, evaluation)

template <class Report> static Report parsed(const std::string& line) try {
  const auto as_nan = [](int, nlohmann::json::parse_event_t, nlohmann::json& value) {
    if (value.is_null()) value = NAN;  // which JSON lacks
    return true;
  };
  const nlohmann::json json = nlohmann::json::parse(line, as_nan);
  return json.get<Report>();
} catch (const nlohmann::json::exception& error) {
  fail(Exit::internal, "arms: an arm reported '", line.substr(0, 100), "': ", error.what());
}

std::string to_line(const AbBlock& block) { return to_line(Json(nlohmann::json(block))); }
std::string to_line(const AbEnd& end) { return to_line(Json(nlohmann::json(end))); }
AbBlock parse_block(const std::string& line) { return parsed<AbBlock>(line); }
AbEnd parse_end(const std::string& line) { return parsed<AbEnd>(line); }

}  // namespace bellows
