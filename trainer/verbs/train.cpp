// trainer [train] --config FILE [key=value ...]
#include "core/base/output.h"
#include "core/base/words.h"
#include "core/config/config.h"
#include "dist/rendezvous/rendezvous.h"
#include "trainer/run/run.h"
#include "trainer/state/run_record.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

namespace fs = std::filesystem;

static std::string find_config(const std::string& config, const RunRequest& given) {
  if (!config.empty() || given.resume.empty()) return config;
  const bool latest = given.resume == "latest";
  if (latest && given.folder.empty()) return "";
  std::error_code error;
  Path folder = latest ? given.folder : given.resume;
  if (!latest && fs::is_regular_file(folder, error))  // a checkpoint in its run's own folder
    folder = fs::absolute(folder, error).parent_path().parent_path();
  const Path plan = folder / "plan.yaml";
  if (fs::is_regular_file(plan, error)) return plan.string();
  CHECK(latest || !fs::is_regular_file(given.resume, error), given.resume,
        ": no plan.yaml in the folder above its own, so its options are unknown; name them with "
        "--config FILE");
  return "";
}

static std::string defaults_note(const Plan& plan) {
  return cat("config: none given, so the defaults: model ", plan.model.model.name(), ", data ",
             plan.data.dataset.name(), ", optimizer ", plan.optimizer.rule.name(), ", ",
             count_of(plan.train.epochs, "epoch"), "; name one with --config FILE");
}

// Makes the config of a run from its plan.yaml, the last source but one, with the origins that
// env.json states. Errors name the place in plan.yaml.
static Config stored_config(std::vector<Values> sources, const std::string& plan_yaml) {
  Values& saved = *(sources.end() - 2);
  Values stated = saved;
  restore_origins(stated, Path(plan_yaml).parent_path());
  for (auto& [key, value] : saved)  // a toggle that was not set by name stays so
    if (key.starts_with("toggles.") && !set_by_name(stated.at(key))) value = stated.at(key);
  Config config = make_config(sources);
  const auto restore = [&](Values& values, const std::string& section) {
    for (auto& [name, value] : values) {
      const auto at = saved.find(section + name);
      if (at == saved.end() || at->second.origin != value.origin) continue;
      const std::string& origin = stated.at(at->first).origin;
      if (!origin.starts_with("off, ")) value.origin = origin;  // off in that run, not here
    }
  };
  restore(config.origins, "");
  restore(config.toggles, "toggles.");
  return config;
}

static int run_train(CommandLine& line, const Arguments& args) {
  std::string config;
  Names overrides;
  RunRequest request;
  bool print = false;
  line.add_config(config, overrides);
  line.add_flag("--print-config", print,
                "print every option with the file and line that set it, and exit");
  line.add_flag("--dry-run", request.dry_run,
                "build everything and run one batch, without writing anything");
  line.add_option(
      "--run-dir", request.folder,
      "folder of the run, which must not hold one yet (default: runs/<name>, numbered)");
  line.add_flag("--overwrite", request.overwrite, "replace an earlier run in that folder");
  line.add_option(
          "--resume", request.resume,
          "continue from the newest checkpoint of a run folder, of --run-dir or of the newest "
          "runs/<name>; a checkpoint file starts a new run folder, in which learning rate, "
          "epochs, schedule, data and more may change")
      .without_value("latest");
  if (!line.read(args)) return 0;
  // `--resume key=value`: the value of --resume is optional, and this one is an override.
  std::error_code is_no_path;
  if (request.resume.find('=') != std::string::npos && !fs::exists(request.resume, is_no_path))
    overrides.push_back(std::exchange(request.resume, "latest"));
  CHECK(request.resume.empty() || !request.overwrite,
        "--resume and --overwrite exclude each other");
  const std::string file = find_config(config, request);
  const std::vector<Values> sources = read_sources(file, overrides);
  const bool stored = config.empty() && !file.empty();
  request.config = stored ? stored_config(sources, file) : make_config(sources);
  if (file.empty()) request.config.notes.push_back(defaults_note(request.config.plan));
  if (!print) return run_training(request);
  if (this_rank(request.config.plan.dist).rank == 0) say_part(print_config(request.config));
  return 0;
}

static const AddVerb train_verb({"train", "trains a model on a data set, as a config describes",
                                 "trainer --config configs/lenet.yaml train.epochs=2 seed=7",
                                 run_train, "train"});

}  // namespace bellows
