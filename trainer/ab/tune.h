// `trainer tune`: the fastest settings of a config that a limited time finds. Each change of the
// config is raced alone, and losers drop out round by round. The winners are then added one by one,
// the fastest first. A second pass tries the rest on top of them, because the bottleneck has moved.
// Fresh processes confirm the kept changes against the start, because a race favors the lucky ones.
// The answer is a config that extends the user's own.
#pragma once
#include <map>
#include "core/config/config.h"
#include "trainer/ab/ab.h"
#include "trainer/run/signals.h"

namespace bellows {

struct TuneOptions : ArmOptions {
  std::string out;         // the config to write
  bool precision = false;  // changes may compute in fewer bits
  double memory = 3;       // limit of peak memory, relative to the start
};

// One setting of the config with another value.
struct Change {
  std::string key, value;           // "toggles.num_workers", "2"
  Values set;                       // the setting, and those of toggles that it needs
  const Toggle* toggle = nullptr;   // null for an option
  Speedup gain = {}, placebo = {};  // over changes kept before; 0 rounds: not measured
  enum class Fate { open, kept, barred } fate = Fate::open;  // open: may be tried again
  std::string why = "not measured";  // "kept", "slower", "no gain", "never ran", ...
  std::string name() const;          // "num_workers=2"
};

struct TuneResult {
  TuneOptions options;
  std::vector<Change> changes;            // changes that were tried
  std::vector<const Change*> kept = {};   // kept changes, in the order in which they were added
  std::map<std::string, Names> left_out;  // changes that were not tried, by reason
  AbResult confirmation;    // the start and all kept changes; a race if there are none
  bool gains = false;       // the config that is written has the kept changes
  int signal = 0;           // SIGINT or SIGTERM if one ended it, else 0
  std::string answer = {};  // the result in one line
};

// Returns the changes that a plan of this config accepts on this machine and that change it:
// toggles of `toggles: all` that are off, other values of toggles that have several, and numbers of
// threads. Fills left_out with the others.
TuneResult find_changes(const TuneOptions& options);

// Races, adds up and confirms. A signal or the end of the budget ends it with what is known. Throws
// Error: exit 2 if the budget has no time to try one change, and as run_rounds() if the start
// fails.
void tune(TuneResult& result, const Signals& signals);

// Returns the settings of the config that is written: those of the kept changes, what they need,
// and the command line's.
std::vector<ConfigLine> settings_of(const TuneResult& result);
std::string to_markdown(const TuneResult& result);
Json to_json(const TuneResult& result);

}  // namespace bellows
