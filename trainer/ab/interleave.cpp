// Runs the time slices of both arms alternately; writes and parses the lines that arms report.
#include <cmath>
#include "trainer/ab/ab.h"
#include "trainer/ab/process.h"
#include "trainer/run/signals.h"

namespace bellows {

std::vector<int> slice_order(int64_t blocks) {
  std::vector<int> order;
  for (int64_t pair = 0; pair < blocks; ++pair)
    for (const int place : {0, 1}) order.push_back(place ^ static_cast<int>(pair % 2));
  return order;
}

AbPair interleave(const ArmCommand& off, const ArmCommand& on, int64_t blocks, double timeout_s,
                  const AfterBlock& after_block) {
  const Signals signals;  // SIGINT and SIGTERM throw below, so that both arms are killed
  const auto end_by_signal = [&] {
    if (const int signal = signals.stop())
      fail(static_cast<Exit>(128 + signal), "ab: ended by signal ", signal, ", without a result");
  };
  ArmProcess off_process(off.name, off.argv, timeout_s, end_by_signal);
  const auto block_of = [&](ArmProcess& arm) {
    const AbBlock block = parse_block(arm.run_slice());
    after_block(block);
    return block;
  };
  AbPair pair;
  pair.off = {off.name, block_of(off_process), {}, {}, 0};
  ArmProcess on_process(on.name, on.argv, timeout_s, end_by_signal);
  pair.on = {on.name, block_of(on_process), {}, {}, 0};
  for (const int arm : slice_order(blocks)) {
    end_by_signal();
    const ArmProcess& waiting = arm == 0 ? on_process : off_process;
    if (!waiting.stopped())
      fail(Exit::internal, "ab: ", waiting.name(), " ran during the other arm's time slice");
    ArmProcess& running = arm == 0 ? off_process : on_process;
    (arm == 0 ? pair.off : pair.on).blocks.push_back(block_of(running));
  }
  pair.off.end = parse_end(off_process.finish());
  pair.on.end = parse_end(on_process.finish());
  pair.off.cpu_s_waiting = off_process.cpu_seconds_waiting();
  pair.on.cpu_s_waiting = on_process.cpu_seconds_waiting();
  return pair;
}

// ---- lines

std::string to_line(const AbBlock& block) {
  return to_line(Json{{"steps", block.steps},
                      {"wall_s", block.wall_s},
                      {"cpu_s", block.cpu_s},
                      {"counters", block.counters}});
}

std::string to_line(const AbEnd& end) {
  return to_line(Json{{"losses", end.losses},
                      {"counters", end.counters},
                      {"threads", end.threads},
                      {"peak_tensor_bytes", end.peak_tensor_bytes},
                      {"peak_resident_bytes", end.peak_resident_bytes}});
}

template <class Read> static auto parse(const std::string& line, Read read) {
  try {
    return read(Json::parse(line));
  } catch (const Json::exception& error) {
    fail(Exit::internal, "ab: an arm reported '", line.substr(0, 100), "': ", error.what());
  }
}

AbBlock parse_block(const std::string& line) {
  return parse(line, [](const Json& json) {
    AbBlock block;
    json.at("steps").get_to(block.steps);
    json.at("wall_s").get_to(block.wall_s);
    json.at("cpu_s").get_to(block.cpu_s);
    json.at("counters").get_to(block.counters);
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
    return end;
  });
}

}  // namespace bellows
