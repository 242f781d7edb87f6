// The protocol of `trainer ab`, and the lines that an arm and its parent exchange.
#include <cmath>
#include "trainer/ab.h"
#include "trainer/ab_process.h"

namespace bellows {

std::string to_line(const AbBlock& block) {
  return to_line(Json{{"steps", block.steps},
                      {"threads", block.threads},
                      {"wall_s", block.wall_s},
                      {"cpu_s", block.cpu_s},
                      {"losses", block.losses},
                      {"counters", block.counters},
                      {"peak_tensor_bytes", block.peak_tensor_bytes},
                      {"peak_resident_bytes", block.peak_resident_bytes}});
}

AbBlock parse_block(const std::string& line) {
  try {
    const Json json = Json::parse(line);
    AbBlock block;
    json.at("steps").get_to(block.steps);
    json.at("threads").get_to(block.threads);
    json.at("wall_s").get_to(block.wall_s);
    json.at("cpu_s").get_to(block.cpu_s);
    for (const Json& loss : json.at("losses"))  // JSON has no NaN
      block.losses.push_back(loss.is_null() ? NAN : loss.get<double>());
    json.at("counters").get_to(block.counters);
    json.at("peak_tensor_bytes").get_to(block.peak_tensor_bytes);
    json.at("peak_resident_bytes").get_to(block.peak_resident_bytes);
    return block;
  } catch (const Json::exception& error) {
    fail(Exit::internal, "ab: an arm wrote what is no block: ", error.what());
  }
}

AbPair take_turns(const ArmCommand& off, const ArmCommand& on, int64_t blocks, double timeout_s) {
  AbPair pair = {{off.name, {}, 0}, {on.name, {}, 0}};
  ArmProcess off_process(off.name, off.argv, timeout_s);
  pair.off.blocks.push_back(parse_block(off_process.turn()));
  ArmProcess on_process(on.name, on.argv, timeout_s);
  pair.on.blocks.push_back(parse_block(on_process.turn()));
  for (const int turn : turn_order(blocks)) {
    ArmProcess& waits = turn == 0 ? on_process : off_process;
    ArmProcess& works = turn == 0 ? off_process : on_process;
    if (!waits.stopped())
      fail(Exit::internal, "ab: ", waits.name(), " works although the turn is not its own");
    (turn == 0 ? pair.off : pair.on).blocks.push_back(parse_block(works.turn()));
  }
  off_process.finish();
  on_process.finish();
  pair.off.cpu_seconds_waiting = off_process.cpu_seconds_waiting();
  pair.on.cpu_seconds_waiting = on_process.cpu_seconds_waiting();
  return pair;
}

}  // namespace bellows
