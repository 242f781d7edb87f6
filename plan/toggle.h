// Toggle: one optimization that a config can switch. It consists of data (names, claims, limits)
// and a pure function that edits the Plan; it has no hooks. No two toggles set the same option, so
// their order cannot matter. A config sets such an option through its toggle only.
#pragma once
#include "core/base/trace.h"
#include "core/config/values.h"
#include "plan/plan.h"

namespace bellows {

// Equality of the loss curves with and without a toggle: identical bits, equal within a tolerance,
// or equal only statistically.
enum class Same { bitwise, close, statistical };
inline const char* name_of(Same same) {
  constexpr const char* names[] = {"bitwise", "close", "statistical"};
  return names[static_cast<int>(same)];
}

struct Toggle {
  Names aliases = {};          // names in other frameworks; `explain` and error hints accept them
  const char* elsewhere = "";  // "PyTorch: its name there; Paddle: its name there", or none
  const char* what = "";       // what it does in at most 42 characters, for `trainer list toggles`
  const char* idea;            // mechanism, and why it should be faster or smaller
  const char* claim;           // expected gain; `trainer ab` prints it beside the measurement
  const char* cost;            // what the toggle costs, and when
  const char* sources = "none";  // statements of the source texts: docs/seeds.md
  const char* code = "";         // where the mechanism is: "dist/buckets.cpp: plan_buckets"
  const char* footprint;         // trace counter that increments if and only if the mechanism runs
  Same same;
  double tolerance = 1e-5;  // for Same::close: relative difference of losses up to the first update
  const char* statistical_where = "";  // counter: if > 0 with the toggle off, same = statistical
  const char* close_where = "";        // counter: if > 0 with the toggle on, same = close
  Names values = {"off", "on"};        // the first one is off
  std::optional<Bounds> numbers = {};  // range of integers that are values too
  const char* default_value = "on";    // value if no config sets it (`default` is a keyword)
  // Value under `toggles: all`: expected to save time wherever it can run, even if not measured
  // yet; "" keeps the toggle out of `toggles: all`.
  const char* fast = "on";
  // Features of the machine ("cuda", "cpu", "numa"; "bf16=bf16": only value bf16 needs it) or of
  // the run ("ranks": more than one), and toggles that must be on.
  Names needs = {};
  const char* nondeterministic_value = "";  // value that `deterministic: on` excludes
  Names supersedes = {};                    // toggles that do not run where this one matches
  // YAML: options with which the mechanism runs in a test, besides the toggles that it needs.
  std::string proof = {};
  // Arguments of `ab`, a config first: where the toggle gains, and where it does not, as
  // tools/gallery.py measures them. If `no_gain` is empty, `measure` shows another gain than time.
  std::string measure = {}, no_gain = {};
  const char* gains = "time";  // "time", "memory" or a trace counter that falls
  // The change in the plan: `enable` if off() is the only other value, else `set`, whose `value` is
  // never off().
  void (*enable)(Plan&) = nullptr;
  void (*set)(Plan&, const std::string& value) = nullptr;

  // Set by AddToggle: the source file, "toggles/memory/set_to_none.cpp", its name, "set_to_none",
  // and its folder, the resource that the toggle is about: "memory".
  std::string file = {}, name = {}, key_point = {};

  const std::string& off() const { return values.front(); }
};

std::vector<Toggle>& toggles();
struct AddToggle {
  explicit AddToggle(Toggle&& toggle, const char* file = __builtin_FILE());
};
// Returns the equality that the toggle promises for two runs, given how much each trace counter
// increased in the run without it (`off`) and with it (`on`).
using trace::Counters;
Same promise(const Toggle& toggle, const Counters& off, const Counters& on);

// Finds a toggle by its name or one of its aliases; null if there is none.
const Toggle* find_toggle(const std::string& name);
// Finds the toggle, or throws Exit::usage with the nearest name. `where` begins the message.
const Toggle& known_toggle(const std::string& name, const std::string& where);

// Returns why the toggle has no effect on this machine with that device ("no effect without a
// GPU"), or "". Needs of a single value ("bf16=bf16") count only if `value` is that value.
std::string no_effect(const Toggle& toggle, DeviceChoice device = DeviceChoice::automatic,
                      const std::string& value = "");

// Returns the plan with the toggle set to `value`. The toggle must be off in `plan`.
Plan switched(Plan plan, const Toggle& toggle, const std::string& value);

// Maps each option that a toggle sets to that toggle. Found by switching every toggle on a Plan{},
// so there is no list to maintain. Throws Exit::internal if two toggles set one option.
using Owners = std::map<std::string, const Toggle*>;
const Owners& option_owners();

// Configuration of a run, built from Plan{} and a list of sources. In a source,
// `toggles: all | none | default` sets all toggles and `toggles: {name: value}` sets one.
struct Config {
  Config();
  Plan options;  // all toggles off
  std::string preset = "default";
  Values toggles;      // value of each toggle, by name
  Values origins;      // source of each option
  Names notes;         // toggles set by name that have no effect here, with the reason
  Plan plan;           // `options` with the toggles applied: the plan that runs
  Values unavailable;  // value of each toggle turned off because it has no effect here
};
// Applies the sources in order; later ones override. Throws Exit::usage with a suggestion.
Config make_config(const std::vector<Values>& sources);
// Returns true if the user set the toggle's value by its name, not a default or a preset.
bool set_by_name(const Value& value);
// Returns the value that error messages suggest: the fast one, else the first that is not off.
std::string suggested(const Toggle& toggle);

// Returns the effective configuration as YAML, each value with its origin. The text can be loaded
// again.
std::string print_config(const Config& config);

// For proofs: a model with the module sequences of the batch_norm and shortcut fusions. Small and
// shallow, so that rounding errors do not grow during training.
inline constexpr const char* kResidualNet = R"(
optimizer.lr: 0.01
train.epochs: 3
model:
  name: layers
  layers:
    - {name: conv2d, out: 4, stride: 3}
    - batch_norm
    - relu
    - {name: residual, layers: [{name: conv2d, out: 4, padding: 1}, batch_norm]}
    - flatten
    - {name: linear, out: 10}
)";

}  // namespace bellows
