// trainer [train] --config FILE [key=value ...]
#include "trainer/config.h"
#include "trainer/output.h"
#include "trainer/run.h"
#include "trainer/verbs.h"

namespace bellows {

namespace {
struct TrainLine {
  std::string config, run_dir, resume;
  std::vector<std::string> overrides;
  bool print_config = false, dry_run = false, overwrite = false;
};
}  // namespace

static void declare(CommandLine& line, TrainLine& given) {
  line.add_option("overrides", given.overrides, "key=value: options, over those of the file");
  line.add_option("--config,-c", given.config, "YAML file");
  line.add_flag("--print-config", given.print_config, "print every option with its origin");
  line.add_flag("--dry-run", given.dry_run, "build everything, run one batch, write nothing");
  line.add_option("--run-dir", given.run_dir, "folder of the run (default: runs/<name>)");
  line.add_flag("--overwrite", given.overwrite, "replace what an earlier run wrote there");
  line.add_option("--resume", given.resume,
                  "go on with the newest checkpoint, or with a run folder or a checkpoint file")
      ->expected(0, 1)
      ->default_str("latest");
}

// Of the file if there is one; a run folder that is resumed brings its own.
static std::string config_of(const TrainLine& given) {
  const std::filesystem::path stored = std::filesystem::path(given.resume) / "plan.yaml";
  const bool resumes = !given.resume.empty() && std::filesystem::is_regular_file(stored);
  return given.config.empty() && resumes ? stored.string() : given.config;
}

static int run(const Arguments& args) {
  CommandLine line("train");
  TrainLine given;
  declare(line, given);
  if (!line.read(args)) return 0;
  // `--resume key=value`: the option's own value is optional, and this is none.
  if (given.resume.find('=') != std::string::npos && !std::filesystem::exists(given.resume))
    given.overrides.push_back(std::exchange(given.resume, "latest"));
  CHECK(given.resume.empty() || !given.overwrite, "--resume and --overwrite exclude each other");
  const Config config = make_config(sources_of(config_of(given), given.overrides));
  if (given.print_config) {
    say_part(print_config(config));
    return 0;
  }
  if (given.dry_run) return rehearse(config);
  return run_training({config, given.run_dir, given.overwrite, given.resume});
}

static const AddVerb verb({"train", "trains a model as a config says",
                           "trainer --config configs/lenet.yaml train.epochs=2 seed=7", run});

}  // namespace bellows
