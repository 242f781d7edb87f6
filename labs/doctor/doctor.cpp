// trainer doctor: describes this machine and this binary, checks them, and prints what to type if
// something is wrong.
#include "labs/doctor/doctor.h"
#include "core/base/output.h"
#include "core/base/round.h"
#include "core/config/config.h"
#include "core/config/hint.h"
#include "labs/bench/bench.h"
#include "plan/toggle.h"
#include "trainer/session/session.h"
#include "trainer/verbs/tables.h"

namespace bellows {

// ---- sections

static void print_findings(const std::vector<std::string>& found) {
  say("");
  if (found.empty()) return say("findings: none");
  say("findings:");
  for (const std::string& line : found) {  // "threads wait; type  unset OMP_PROC_BIND"
    const size_t command = line.find("  ");
    say_wrapped("  - " + line.substr(0, command), "    ");
    if (command != line.npos) say("    " + line.substr(command));
  }
}

// Returns a table of the weights (out, in, ..) with `out` or `in` not a multiple of 8, and the
// sizes to pad them to; one line of text if there are none.
static std::string unaligned_shapes(const NamedTensors& parameters) {
  std::vector<TableRow> rows = {{"weight", "out", "in", "pad to"}};
  for (const auto& [name, tensor] : parameters) {
    if (tensor.rank() < 2) continue;  // biases are not operands of a product
    const int64_t out = tensor.dim(0), in = tensor.dim(1);
    const int64_t wide_out = round_up(out, 8), wide_in = round_up(in, 8);
    if (wide_out == out && wide_in == in) continue;
    rows.push_back({name, cat(out), cat(in), cat(wide_out, ", ", wide_in)});
  }
  return rows.size() > 1 ? aligned(rows, "lrrr") : "all sizes are multiples of 8\n";
}

static int64_t number_of(const std::string& text, const char* option) {
  const int64_t n = whole_number(text, 65536);
  CHECK(text.empty() || n > 0, "doctor: ", option, " ", on_one_line(text),
        ": it takes a number from 1 to 65536");
  return n;
}

static int run_doctor(CommandLine& line, const Arguments& args) {
  std::string device = "auto", size, config, seconds, run;
  Arguments overrides;
  bool shapes = false;
  line.add_option("overrides", overrides, "key=value: options of the model, for --shapes");
  line.add_option(
          "--stress", size,
          "[n]: 100 products n x n x n in each precision, with verified results (default n: "
          "8192 on a GPU, a size that takes seconds on a CPU)")
      .without_value();
  line.add_option("--watch", seconds,
                  "[n]: print the machine's load for n seconds, or until Ctrl-C")
      .without_value();
  line.add_option("--run", run, "folder of a run whose costs --watch shows beside the load");
  line.add_flag("--shapes", shapes, "print only the weights whose sizes are not multiples of 8");
  line.add_option("--config,-c", config, "YAML file of the model, for --shapes");
  add_device_option(line, device);
  if (!line.read(args)) return 0;
  CHECK(line.given("--stress") || !line.given("--device"),
        "doctor: only --stress takes a --device");
  CHECK(shapes || (overrides.empty() && config.empty()), "doctor: only --shapes takes a config");
  if (shapes) {
    const Plan plan = make_config(read_sources(config, overrides)).plan;
    say_part(unaligned_shapes(Session(plan).parameters));
    return 0;
  }
  CHECK(run.empty() || line.given("--watch"), "doctor: only --watch takes a --run");
  if (line.given("--watch")) return watch_machine(run, number_of(seconds, "--watch"));
  const int64_t n = number_of(size, "--stress");  // 0: stress() chooses
  const Machine machine = this_machine();
  say_part(describe(machine));
  if (line.given("--stress")) stress(start_bench(device), n);
  print_findings(findings(machine));
  return 0;
}

static const AddVerb doctor_verb({"doctor",
                                  "describes this machine and this binary, and says what to fix",
                                  "trainer doctor --stress", run_doctor});

}  // namespace bellows
