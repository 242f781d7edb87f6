// trainer profile --config FILE --steps 20:30: where the time of an update goes.
#include <nlohmann/json.hpp>
#include "core/base/file.h"
#include "core/base/output.h"
#include "core/base/words.h"
#include "core/config/config.h"
#include "labs/profile/analysis.h"
#include "labs/profile/recorder.h"
#include "plan/toggle.h"
#include "trainer/run/loop.h"
#include "trainer/session/planted_load.h"
#include "trainer/session/session.h"
#include "trainer/session/windows.h"
#include "trainer/verbs/tables.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

static std::vector<int64_t> window_of(const std::string& text) {
  const size_t colon = text.find(':');
  const int64_t first = whole_number(text.substr(0, colon)),
                last = colon == text.npos ? 0 : whole_number(text.substr(colon + 1));
  CHECK(first > 0 && last > first, "profile: --steps '", text,
        "'; expected two numbers from 1 on, as in 20:30");
  return {first, last};
}

static Plan profiled(Plan plan, const std::vector<int64_t>& window) {
  plan.profile = {.window = window, .exit_after = true};
  plan.train.cuda_graph = false;
  plan.eval.every = plan.ckpt.every = plan.ckpt.every_iters = 0;
  plan.ckpt.best = plan.target.metric = "none";
  plan.train.patience = 0;
  return plan;
}

static Recording recorded(Session& session, Signals& signals) {
  const std::vector<int64_t>& window = session.plan.profile.window;
  CHECK(session.total_steps() >= window[1], "profile: the run ends after ", session.total_steps(),
        " updates, before step ", window[1], "; lower --steps or raise train.epochs");
  Recorder recorder(session, window[0], window[1]);
  Log log(session.plan, {}, LogOutput::silent);
  const Outcome outcome = train(session, log, nullptr, signals, {},
                                [&](const Position& at) { recorder.after_update(at); });
  if (outcome.signal)
    fail(static_cast<Exit>(128 + outcome.signal), "profile: interrupted by ",
         name_of_signal(outcome.signal), ", nothing is printed");
  return recorder.take();
}

static int run_profile(CommandLine& line, const Arguments& args) {
  std::string config, steps = "20:30", trace, tables;
  Arguments overrides;
  line.add_config(config, overrides);
  line.add_option("--steps", steps, "FIRST:LAST, updates to record, the last not included")
      .shows_default();
  line.add_option("--trace", trace,
                  "file for a trace of all threads, for Perfetto and HolisticTraceAnalysis");
  line.add_option("--json", tables, "file for the tables as JSON, which `trainer report` shows");
  line.add_note(
      "Trains up to the last of these updates, evaluates and saves nothing, and prints tables of "
      "phases, ops, modules, slow calls, gaps, threads and memory. On a GPU, CUPTI times what the "
      "device runs, and updates run without cuda_graph, because a replay enters no ranges. Under "
      "`trainer launch` it is rank 0's profile, with an update of all ranks on one clock: ops, "
      "buckets on their way, and the waits that backward did not hide; and the memory of each "
      "rank.");
  if (!line.read(args)) return 0;
  const std::vector<int64_t> window = window_of(steps);
  check_place(trace, "profile: --trace");
  check_place(tables, "profile: --json");
  Plan given = make_config(read_sources(config, overrides)).plan;
  settle_planted_load(given);
  const Plan plan = profiled(given, window);
  Session session(plan);
  Signals signals;
  const Recording recording = recorded(session, signals);
  const Json ranks = gather_ranks(session, recording);
  if (session.ranks.rank > 0) return 0;
  Json report = analyze(recording, ceilings_of(session.device, plan.kernels.tf32));
  say(cat(plan.name, ": batch ", plan.data.loader.sampler.batch_size, ", ",
          count_of(pool_threads(), "thread")));
  if (session.device == Device::cuda && given.train.cuda_graph)
    say("cuda_graph: off here, because a replay enters no ranges");
  if (const std::string planted = planted_load(plan); !planted.empty()) say_wrapped(planted);
  const std::string text = text_of(report) + (ranks.is_null() ? "" : "\n" + ranks_text(ranks));
  say_part(text);
  if (!tables.empty()) {
    Names notes = session.notes;
    std::erase(notes, profiler_note(session.plan.profile));  // for another tool
    report.update({{"name", plan.name},
                   {"batch", session.plan.data.loader.sampler.batch_size},
                   {"threads", pool_threads()},
                   {"run", notes},
                   {"text", text}});
    if (!ranks.is_null()) report["ranks"] = ranks;
    write_file(tables, bytes_of(to_line(report)));
  }
  if (!trace.empty()) write_file(trace, bytes_of(to_line(chrome_trace(recording))));
  return 0;
}

static const AddVerb profile_verb(
    {"profile", "shows where the time and memory of an update go, on a CPU or a GPU",
     "trainer profile --config configs/lenet.yaml --steps 20:30", run_profile});

}  // namespace bellows
