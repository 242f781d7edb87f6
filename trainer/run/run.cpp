#include "trainer/run/run.h"
#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>
#include "core/base/crc32c.h"
#include "core/base/trace.h"
#include "core/base/words.h"
#include "core/config/values.h"
#include "trainer/log/system.h"
#include "trainer/run/loop_parts.h"
#include "trainer/session/planted_load.h"
#include "trainer/session/session.h"
#include "trainer/session/training_step.h"
#include "trainer/state/run_record.h"
#include "trainer/state/training_state.h"

namespace bellows {

namespace fs = std::filesystem;

namespace {
struct Start {
  Path folder;
  IfExists existing = IfExists::another;
  std::optional<Loaded> saved = {};
  Lines notes = {};
  Resume resume = Resume::same_run;
};
}  // namespace

// Numbers only the default folder. A folder that the user names is used as it is.
static Start new_run(const RunRequest& request) {
  Start start{Path("runs") / request.config.plan.name};
  if (!request.folder.empty()) start = {request.folder, IfExists::refuse};
  if (request.overwrite) start.existing = IfExists::overwrite;
  if (start.existing == IfExists::refuse) refuse_used(start.folder);  // before data is loaded
  return start;
}

static Start choose_start(const RunRequest& request) {
  if (request.resume.empty()) return new_run(request);
  const Kind kind = kind_of(request.resume, Exit::checkpoint);
  if (kind == Kind::file) {  // a branch keeps later checkpoints of that run
    Start start = new_run(request);
    start.saved = load_checkpoint(request.resume, start.notes);
    start.resume = Resume::branch;
    return start;
  }
  const bool latest = request.resume == "latest";
  if (!latest && kind == Kind::nothing)
    fail(Exit::checkpoint, request.resume,
         ": no such checkpoint or run folder to resume from; ckpt.keep removes older ones");
  std::error_code apart;
  CHECK(latest || request.folder.empty() || fs::equivalent(request.folder, request.resume, apart),
        "--run-dir ", request.folder, ": a run continues in its own folder, ", request.resume,
        "; for a branch, resume from one of its checkpoint files");
  Start start{request.resume, IfExists::keep};
  if (latest) {
    const std::vector<Path> runs = request.folder.empty()
                                       ? list_runs(Path("runs") / request.config.plan.name)
                                       : std::vector<Path>{request.folder};
    const auto has = [](const Path& run) { return !list_checkpoints(run / "checkpoints").empty(); };
    const auto found = std::ranges::find_if(runs, has);
    start.folder = found == runs.end() ? runs.front() : *found;
    if (start.folder != runs.front())
      start.notes.push_back(cat("warning: ", runs.front().string(), " has no checkpoint; resuming ",
                                start.folder.string(), ", the newest run that has one"));
  }
  const Path checkpoints = start.folder / "checkpoints";
  if (latest && list_checkpoints(checkpoints).empty())
    start.notes.push_back(cat("resume: no checkpoint in ", checkpoints.string(), ", a new run"));
  else
    start.saved = load_newest(checkpoints, start.notes);
  return start;
}

// ---- resume

static MarksByKey marks_of_both(const Plan& saved, const Plan& now) {
  MarksByKey marks = marks_of(now);
  marks.merge(marks_of(saved));
  return marks;
}

// Returns true for options that a resumed run may change: how, how long and where it trains.
// Toggles that keep the losses are included, because another device may switch them.
static bool may_change(const std::string& key, const Marks& marks) {
  const auto owner = option_owners().find(key);
  if (owner == option_owners().end()) return marks.change == Marks::resumable;
  const Toggle& toggle = *owner->second;
  if (*toggle.statistical_where) return false;
  return toggle.same != Same::statistical || marks.change == Marks::resumable;
}

static std::string to_text(const Difference& d) { return cat(d.key, ": ", d.a, " -> ", d.b); }

static void check_global_batch(const Plan& saved, const Plan& now, const RankCounts& ranks) {
  const int64_t then = saved.data.loader.sampler.batch_size,
                each = now.data.loader.sampler.batch_size;
  CHECK(ranks.saved == ranks.now || ranks.saved * then == ranks.now * each,
        "a resumed run cannot change the global batch: ", ranks.saved * then, " = ", ranks.saved,
        " x ", then, " -> ", ranks.now * each, " = ", ranks.now, " x ", each,
        " (ranks x data.batch_size); change data.batch_size with the number of ranks, or name "
        "another run:  --resume FOLDER");
}

std::vector<Difference> compare_plans(const Plan& saved, const Plan& now, Resume resume,
                                      const RankCounts& ranks) {
  if (resume == Resume::same_run) check_global_batch(saved, now, ranks);
  // Names of entries come first: changing one also changes which options exist.
  std::vector<Difference> found = differences(dump(saved), dump(now), "(none)");
  std::stable_partition(found.begin(), found.end(),
                        [](const auto& d) { return d.key.ends_with(".name"); });
  const MarksByKey marks = marks_of_both(saved, now);
  for (const Difference& d : found) {
    const Marks& of = marks.at(d.key);
    CHECK(of.change != Marks::fixed, "a resumed run cannot change ", to_text(d), ": ", of.why);
    const bool same_joint = d.key == "data.batch_size" && ranks.saved != ranks.now;
    CHECK(resume == Resume::branch || same_joint || may_change(d.key, of),
          "a resumed run cannot change ", to_text(d),
          "; undo the change, or start a branch in another folder: --resume RUN/checkpoints/FILE");
  }
  return found;
}

static void forget(Forget result, Session& session, Position& at) {
  if (result == Forget::target) at.target_s = -1;
  if (result == Forget::best) at.best = {};
  if (result == Forget::rate) session.set_rate_state({});
  if (result == Forget::rate_history)
    session.set_rate_state({.factor = session.rate_state().factor});
}

static Position resume(Session& session, Start& start) {
  const Loaded& saved = *start.saved;
  const RankCounts ranks{read_ranks(saved.content), session.ranks.world};
  const Plan before = read_plan(saved.content);
  std::vector<Difference> changes;
  try {
    changes = compare_plans(before, session.plan, start.resume, ranks);
  } catch (const Error& error) {  // --resume alone does not name the checkpoint
    fail(error.exit, saved.path.string(), ": ", error.what());
  }
  check_finite(saved.path, saved.content.tensors, session.plan.ckpt, start.notes);
  Position at = restore(session, saved.content, start.notes, start.resume);
  const MarksByKey marks = marks_of_both(before, session.plan);
  for (const Difference& change : changes) {
    start.notes.push_back("resume: changed " + to_text(change));
    forget(marks.at(change.key).forgets, session, at);
  }
  const double was = session.next_rate(before), now = session.next_rate();
  if (now > 1.01 * was)
    start.notes.push_back(cat("resume: the learning rate rises from ", was, " to ", now,
                              " here, because the plan has changed"));
  if (ranks.saved != ranks.now)
    start.notes.push_back(cat("resume: ranks: ", ranks.saved, " -> ", ranks.now));
  start.notes.push_back(
      cat("resume: ", saved.path.string(), ", step ", at.step, ", epoch ", at.epoch));
  return at;
}

// ---- run

// A run that was killed between its last update and the evaluation still has to evaluate.
static bool nothing_to_do(const Session& session, const Position& at) {
  return finished(session, at) && (!session.plan.eval.every || at.evaluated == at.step);
}

static std::string continuation(const Session& session, const Position& at,
                                const Path& checkpoints) {
  if (nothing_to_do(session, at)) return "";
  std::error_code none;
  if (fs::exists(checkpoint_path(checkpoints, at.step), none)) return "; continue with --resume";
  return cat("; the last save failed", list_checkpoints(checkpoints).empty()
                                           ? ", and there is no checkpoint to continue from"
                                           : "; --resume continues from an earlier checkpoint");
}

static void print_lines(const Session& session, const Lines& lines) {
  if (session.ranks.rank == 0)
    for (const std::string& line : lines) print_line(session.plan.log.format, line);
}

// All ranks read the same file, or start from the same weights. A file that differs, such as an old
// copy on one machine, is found here.
static void compare_ranks(const Session& session) {
  if (session.ranks.world == 1) return;
  constexpr size_t kMost = size_t{1} << 32;
  const std::string version = version_text();
  const uint32_t program = crc32c(bytes_of(read_file("/proc/self/exe", kMost, Exit::internal)));
  session.agree("state", {{"the program", version.substr(0, version.find('\n'))},
                          {"the checksum of the program file", fmt::format("{:08x}", program)},
                          {"the hash of the state after loading", state_hash(session)}});
}

// Writes the first files of the run folder. env.json also holds the origin of each option and
// toggle, {"train.epochs": "command line"}.
static void write_config(const RunFolder& folder, const Config& config) {
  folder.write("plan.yaml", print_config(config));
  Json env = environment();
  Json& origins = env["origins"];
  origins["toggles.preset"] = "for those without a value";
  for (const auto& [key, value] : config.origins) origins[key] = value.origin;
  for (const auto& [name, value] : config.toggles) origins["toggles." + name] = value.origin;
  folder.write("env.json", env.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

// Returns rank 0's folder on every rank; "" if this machine does not have the folder.
static Path shared_folder(const Session& session, const Path& folder) {
  if (session.ranks.world == 1) return folder;
  session.wait_for_rank0("run folder");  // may take longer than dist.timeout_s
  const std::string key = "run/folder";
  if (session.ranks.rank == 0) return session.store->set(key, folder.string()), folder;
  const Path shared = session.store->get(key, timeout_of(session.plan.dist.timeout_s));
  std::error_code none;
  return fs::is_directory(shared, none) ? shared : Path();
}

static void write_flight_report(const Session& session, const Path& folder) noexcept {
  try {
    const std::string report = session.group->flight_report();
    const std::string name = cat(kFlightReport, session.ranks.rank, ".txt");
    if (!folder.empty() && !report.empty()) write_file(folder / name, bytes_of(report));
  } catch (const std::exception&) {  // ignored: the error being thrown is the cause
  }
}

// Loads the state in which the run starts and prints the notes. Returns its position; none if
// nothing is left to do.
static std::optional<Position> begin_run(Session& session, const Config& config, Start& start) {
  Position at;
  if (start.saved) {
    at = resume(session, start);
    start.saved->content = {};  // frees its memory
  } else {
    load_weights(session, start.notes);
  }
  compare_ranks(session);
  for (const Lines& lines : {session.notes, {toggle_line(config)}, config.notes, start.notes})
    print_lines(session, lines);
  if (!start.saved || !nothing_to_do(session, at)) return check_micro_batches(session, at.step), at;
  print_lines(session,
              {"nothing to do: the run is finished", "params hash: " + model_hash(session)});
  return {};
}

static int dry_run_from(Session& session, const Position& at) {
  const TrainingStep step(session);  // throws if an update cannot be captured
  dry_run(session);
  const int64_t samples = session.loader->sampler().joint_size(0);  // batch 0 is the largest
  const int64_t steps = std::max<int64_t>(0, session.total_steps() - at.step);
  print_lines(session, {cat("dry run: ", count_of(steps, "step"), " of ",
                            count_of(samples, "sample"), " would follow")});
  return 0;
}

// Only rank 0 has a run folder and checkpoints. `shared`: receives its folder on every rank.
static int run_in(Session& session, const RunRequest& request, Start& start, Path& shared,
                  const Counters& before) {
  const auto at = begin_run(session, request.config, start);
  if (!at) return 0;
  if (request.dry_run) return dry_run_from(session, *at);
  const bool writes = session.ranks.rank == 0;
  std::optional<RunFolder> files;
  std::optional<Checkpoints> checkpoints;
  if (writes) {
    files.emplace(start.folder, start.existing);
    checkpoints.emplace(files->checkpoints(), session.plan.ckpt,
                        start.saved ? start.saved->path : Path());
    session.data_fingerprint();  // reads samples now, so that no checkpoint has to wait
    write_config(*files, request.config);
  }
  const Path folder = writes ? files->path() : Path();
  shared = shared_folder(session, folder);
  Signals signals;  // exists from the first line that names the folder until the summary
  print_lines(session, {"run folder: " + folder.string()});
  Log log(session.plan, folder, writes ? LogOutput::lines : LogOutput::silent, *at);
  const Outcome outcome = train(session, log, writes ? &*checkpoints : nullptr, signals, *at);
  log.totals(outcome.at, totals(session, outcome));
  const Lines lines = summary(session, outcome);
  const auto uses = toggle_uses(request.config, trace::moved_since(before));
  if (writes) files->write("end.json", to_line(end_of_run(lines, uses)) + "\n");
  session.wait_for_rank0("end.json");  // from here on, the launcher waits only dist.timeout_s
  print_lines(session, lines);
  if (outcome.signal && writes)
    print_lines(session,
                {cat("stopped by ", name_of_signal(outcome.signal), " after step ", outcome.at.step,
                     continuation(session, outcome.at, folder / "checkpoints"))});
  print_lines(session, idle_toggles(uses));
  return outcome.signal ? 128 + outcome.signal : 0;
}

// Reports an error of this rank to the others, and writes its last collectives to the run folder,
// once that is known. Errors begin with the rank, since all ranks may write to one terminal.
int run_training(RunRequest request) {
  // A dry run uses kernels that an earlier run has found, because the result of a search would be
  // kept in the user's cache.
  Autotune& autotune = request.config.plan.kernels.autotune;
  if (request.dry_run && autotune == Autotune::benchmark) autotune = Autotune::found;
  const Ranks& ranks = this_rank(request.config.plan.dist);
  std::optional<Session> session;
  Path folder;
  try {
    Start start = choose_start(request);
    settle_batch_size(request.config, start.saved, start.notes);
    settle_planted_load(request.config.plan);
    request.config.options.sim = request.config.plan.sim;
    const Counters before = trace::counters();
    return run_in(session.emplace(request.config.plan), request, start, folder, before);
  } catch (const std::exception& error) {
    if (session && !dynamic_cast<const AgreedError*>(&error)) {
      session->abort(error.what());
      write_flight_report(*session, folder);
    }
    const auto* const known = dynamic_cast<const Error*>(&error);
    if (!known) throw;
    const std::string name = ranks.world == 1 ? "" : cat("rank ", ranks.rank, ": ");
    fail(known->exit, std::string_view(error.what()).starts_with(name) ? "" : name, error.what());
  }
}

}  // namespace bellows
