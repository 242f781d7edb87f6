#include "trainer/run.h"
#include <csignal>
#include "core/trace.h"
#include "data/packed_twin.h"
#include "trainer/loop.h"
#include "trainer/output.h"
#include "trainer/plan_diff.h"
#include "trainer/summary.h"
#include "trainer/system.h"
#include "trainer/weights.h"

namespace bellows {

namespace fs = std::filesystem;

namespace {
// Where a run goes and what it starts from.
struct Start {
  Path folder;
  Existing existing = Existing::another;
  std::optional<Loaded> saved;
  Lines notes;
};
}  // namespace

static Start start_of(const RunRequest& request) {
  const Path asked =
      request.folder.empty() ? Path("runs") / request.config.plan.name : Path(request.folder);
  Start start{asked, request.overwrite ? Existing::overwrite : Existing::another, {}, {}};
  if (request.resume.empty()) return start;
  if (fs::is_regular_file(request.resume)) {  // a branch: later checkpoints of that run stay
    start.saved = load_checkpoint(request.resume, start.notes);
    return start;
  }
  const bool latest = request.resume == "latest";
  if (!latest && !fs::exists(request.resume))
    fail(Exit::checkpoint, request.resume, ": no such checkpoint or run folder to resume from");
  CHECK(latest || request.folder.empty() ||
            fs::weakly_canonical(request.folder) == fs::weakly_canonical(request.resume),
        "--run-dir ", request.folder, ": a run goes on in its own folder, ", request.resume,
        "; for a branch resume from one of its checkpoint files");
  start.folder = latest ? newest_run(asked) : Path(request.resume);
  start.existing = Existing::keep;
  const Path checkpoints = start.folder / "checkpoints";
  if (latest && list_checkpoints(checkpoints).empty()) {
    start.notes.push_back(cat("resume: no checkpoint in ", checkpoints.string(), ", a new run"));
  } else {
    start.saved = load_newest(checkpoints, start.notes);
  }
  return start;
}

static Position resume(Session& session, const Loaded& saved, Lines& notes) {
  const Lines changes = compare_plans(plan_of(saved.content), session.plan);
  look_for_nonfinite(saved.path, saved.content.tensors, session.plan.ckpt, notes);
  Position at = restore(session, saved.content, notes);
  for (const std::string& change : changes) {
    notes.push_back("resume: changed " + change);
    if (change.starts_with("target.")) at.target_s = -1;
  }
  notes.push_back(cat("resume: ", saved.path.string(), ", step ", at.step, ", epoch ", at.epoch));
  return at;
}

static void say_all(const Lines& lines) {
  for (const std::string& line : lines) say(line);
}

static int end_run(const Session& session, const Outcome& outcome) {
  say_all(summary(session, outcome));
  if (outcome.signal == 0) return 0;
  say(cat("stopped by ", outcome.signal == SIGINT ? "SIGINT" : "SIGTERM", " after step ",
          outcome.at.step, "; go on with --resume"));
  return 128 + outcome.signal;
}

int run_training(const RunRequest& request) {
  const Counts before = trace::counters();
  Start start = start_of(request);
  Session session(request.config.plan);
  Position at;
  if (start.saved)
    at = resume(session, *start.saved, start.notes);
  else
    load_weights(session, start.notes);
  say_all(session.notes);
  say(toggle_line(request.config));
  say_all(request.config.notes);
  say_all(start.notes);
  if (start.saved && finished(session, at)) {
    say("nothing to do: the run is finished");
    say("params hash: " + model_hash(session));
    return 0;
  }
  const RunFolder folder(start.folder, start.existing);
  folder.write("plan.yaml", print_config(request.config));
  folder.write("env.json", environment().dump(2) + "\n");
  say("run folder: " + folder.path().string());
  Log log(session.plan, folder.path(), Voice::lines);
  Checkpoints checkpoints(folder.checkpoints(), session.plan.ckpt,
                          start.saved ? start.saved->path : Path());
  Loop loop(session, log, &checkpoints, at);
  const Outcome outcome = loop.run();
  log.totals(outcome.at, totals(session, outcome));
  const int code = end_run(session, outcome);
  say_all(idle_toggles(request.config, before, trace::counters()));
  return code;
}

int rehearse(const Config& config) {
  Plan plan = config.plan;
  Lines notes;
  if (plan.data.packed && !has_packed_twin(plan.data.dataset)) {
    plan.data.packed = false;
    notes.push_back("packed: not yet, and a dry run packs nothing: it reads the data set itself");
  }
  Session session(plan);
  load_weights(session, notes);
  say_all(session.notes);
  say(toggle_line(config));
  say_all(config.notes);
  say_all(notes);
  const TrainingStep step(session);  // refuses what cannot be an update
  const Kernels use(session.plan.kernels);
  dry_run(session);
  say(cat("dry run: ", session.total_steps(), " steps of ", session.plan.data.loader.batch_size,
          " samples would follow"));
  return 0;
}

}  // namespace bellows
