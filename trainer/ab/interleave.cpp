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
                                  double timeout_s, const Signals& signals,
                                  const AfterBlock& after_block) {
  const auto end_by_signal = [&] {
    if (const int signal = signals.stop())
      fail(static_cast<Exit>(128 + signal), "arms: ended by signal ", signal, ", without a result");
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

std::string to_line(const AbBlock& block) {
  return to_line(Json{{"steps", block.steps},
                      {"wall_s", block.wall_s},
                      {"cpu_s", block.cpu_s},
                      {"waited_s", block.waited_s},
                      {"counters", block.counters},
                      {"reader_s", block.reader_s}});
}

std::string to_line(const AbEnd& end) {
  return to_line(Json{{"losses", end.losses},
                      {"counters", end.counters},
                      {"threads", end.threads},
                      {"peak_tensor_bytes", end.peak_tensor_bytes},
                      {"peak_resident_bytes", end.peak_resident_bytes},
                      {"samples", end.samples},
                      {"reached_target", end.reached_target},
                      {"pixels", end.pixels}});
}

template <class Read> static auto parse(const std::string& line, Read read) {
  try {
    return read(Json::parse(line));
  } catch (const Json::exception& error) {
    fail(Exit::internal, "arms: an arm reported '", line.substr(0, 100), "': ", error.what());
  }
}

AbBlock parse_block(const std::string& line) {
  return parse(line, [](const Json& json) {
    AbBlock block;
    json.at("steps").get_to(block.steps);
    json.at("wall_s").get_to(block.wall_s);
    json.at("cpu_s").get_to(block.cpu_s);
    json.at("waited_s").get_to(block.waited_s);
    json.at("counters").get_to(block.counters);
    json.at("reader_s").get_to(block.reader_s);
    return block;
  });
}

AbEnd parse_end(const std::string& line) {
  return parse(line, [](const Json& json) {
    AbEnd end;
    for (const Json& loss : json.at("losses"))
      end.losses.push_back(loss.is_null() ? NAN : loss.get<double>());  // JSON has no NaN
    json.at("counters").get_to(end.counters);
    json.at("threads").get_to(end.threads);
    json.at("peak_tensor_bytes").get_to(end.peak_tensor_bytes);
    json.at("peak_resident_bytes").get_to(end.peak_resident_bytes);
    json.at("samples").get_to(end.samples);
    json.at("reached_target").get_to(end.reached_target);
    json.at("pixels").get_to(end.pixels);
    return end;
  });
}

}  // namespace bellows
