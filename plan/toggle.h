// A Toggle is one optimization: what it claims, what it may change, and the edit it makes to the
// Plan. It is data and a pure function, never a hook, and no two toggles set the same option, so
// their order cannot matter.
#pragma once
#include "core/config/values.h"
#include "plan/plan.h"

namespace bellows {

enum class Same { bitwise, close, statistical };  // what switching it may do to the loss curve
inline const char* name_of(Same same) {
  constexpr const char* names[] = {"bitwise", "close", "statistical"};
  return names[static_cast<int>(same)];
}

struct Toggle {
  const char* name;
  Names aka = {};         // what users call it elsewhere; `explain` and the hints know these too
  const char* idea;       // what it does and why that should be faster or smaller
  const char* claim;      // what to expect; `trainer ab` prints it beside what it measures
  const char* hurts;      // when it costs
  const char* sources;    // statements of the seed texts: docs/seeds.md
  const char* footprint;  // the trace counter that moves when, and only when, the mechanism runs
  Same same;
  double tolerance = 0;                // of the loss, relative, where it may be close
  const char* statistical_where = "";  // a counter: in runs in which it moves, `same` is that
  const char* close_where = "";  // a counter: where it moves with the toggle on, `same` is that
  Names values = {"off", "on"};        // the first is always off
  std::optional<Bounds> numbers = {};  // whole numbers that are values too
  const char* by_default = "on";       // in a config that is silent (`default` is a keyword)
  const char* fast = "on";  // under `toggles: all`; "" if it trades speed for something else
  // Of the machine: "cuda", "cpu", "numa"; of one value only: "bf16=bf16"; or toggles that have to
  // be on too.
  Names needs = {};
  const char* undetermined = "";        // a value that  deterministic: on  excludes
  Names supersedes = {};                // toggles that are idle where this one matches
  void (*proof)(Plan&) = [](Plan&) {};  // edits a test's plan so that the mechanism can run at all
  const char* example = "configs/lenet.yaml";  // in which `ab` sees it run; "": none is there
  void (*enable)(Plan&, const std::string& value);

  // Set by AddToggle: the source file, "toggles/memory/set_to_none.cpp", and the resource that the
  // toggle is about, which is the file's folder: "memory".
  std::string file = {}, key_point = {};

  const std::string& off() const { return values.front(); }
};

// Sets `file` and `key_point` from the path of a source file.
void place(Toggle& toggle, const std::string& path);

inline std::vector<Toggle>& toggles() {
  static std::vector<Toggle> all;
  return all;
}
struct AddToggle {
  explicit AddToggle(Toggle toggle, const std::string& file = __builtin_FILE()) {
    registered_files().insert(file);
    place(toggle, file);
    toggles().push_back(std::move(toggle));
  }
};
// What the toggle promises to two runs, without and with it, that moved the trace counters by so
// much.
using Counters = std::map<std::string, int64_t>;
Same promise(const Toggle& toggle, const Counters& off, const Counters& on);

// By its name or one of its other names; null if nobody knows it.
const Toggle* find_toggle(const std::string& name);

// Why it cannot help on this machine, with that device: "no effect without a GPU". "": it can.
// What only one of its values needs counts for that one.
std::string no_effect(const Toggle& toggle, DeviceChoice device = DeviceChoice::automatic,
                      const std::string& value = "");
bool is_of_the_machine(const std::string& need);  // no toggle

// The plan with the toggle at that value.
Plan switched(Plan plan, const Toggle& toggle, const std::string& value);

// Each option that a toggle sets, and which one: found by trying, so nobody keeps a list. Throws if
// there are two for one option.
using Owners = std::map<std::string, const Toggle*>;
const Owners& option_owners();

// What the sources ask for, one after the other: Plan{}, its options, then its toggles. In a
// source, `toggles: all | none | default` sets all of them, and `toggles: {name: value}` one.
struct Config {
  Config();
  Plan options;  // without toggles
  std::string preset = "default";
  Values toggles;  // by name
  Values origins;  // of the options
  Names notes;     // toggles that were asked for and cannot help here, and why
  Plan plan;       // options with the toggles switched: what runs
};
// Throws Error (exit 2) with what to type instead.
Config make_config(const std::vector<Values>& sources);
// What to write to switch it on: its fast value, else the first that is not off.
std::string suggested(const Toggle& toggle);
// For code that starts from a plan: the same plan with these toggles, by their names, switched.
Plan with_toggles(Plan plan, const std::map<std::string, std::string>& values);

// The effective configuration as YAML, each value with its origin; what it prints loads again.
std::string print_config(const Config& config);

}  // namespace bellows
