// trainer report PATH...: the page of run folders or of reports in JSON (labs/page/page.h).
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <set>
#include "core/base/file.h"
#include "core/base/output.h"
#include "data/sets/arrays.h"
#include "labs/page/page.h"
#include "trainer/state/run_record.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

// Reads a run for its page, which names no host and no folder, so that it can be shown to others.
static Json shown_run(const Path& folder) {
  Json run = read_run(folder), env = Json::object();
  for (const char* key :
       {"cpu", "vector_units", "cores", "threads", "memory_bytes", "kernel", "openmp_runtime",
        "blas_library", "allocator", "flags", "commit", "versions", "variables"})
    if (const auto found = run["env"].find(key); found != run["env"].end()) env[key] = *found;
  run["env"] = env;
  run.erase("folder");
  run["text"] = fmt::format("{}", fmt::join(run["summary"].get<Names>(), "\n"));
  return run;
}

static void add_images(Json& run, const Path& folder) {
  for (const Json& option : run["plan"])
    if (option[0] == "data.name" &&
        (entries<MakeInputs>().contains(option[1]) || entries<EncodeText>().contains(option[1])))
      return;
  try {
    run["images"] = judge_test_images(folder);
  } catch (const Error& error) {
    run["images"] = {{"missing", true}};
    warn(cat("report: the page lacks images: ", error.what()));
  }
}

// Returns the run folders in a folder of runs; for any other path, the path itself.
static std::vector<Path> runs_in(const Path& path) {
  std::vector<Path> runs;
  const auto has_run = [](const Path& folder) {
    return kind_of(folder / "plan.yaml", Exit::usage) == Kind::file;
  };
  if (kind_of(path, Exit::usage) == Kind::folder && !has_run(path))
    for (const Path& each : paths_in(path, Exit::usage))
      if (kind_of(each, Exit::usage) == Kind::folder && has_run(each)) runs.push_back(each);
  return runs.empty() ? std::vector{path} : runs;
}

// Reduces runs to the data of their common page: options that differ and, if there are many runs,
// the last row of each log.
static void shorten(std::vector<Json>& runs) {
  constexpr size_t kMostCurves = 6;
  std::set<std::string> keys = {"name", "model.name", "data.name"};
  for (const Json& run : runs)
    for (const Difference& d : differences(options_in(runs[0]), options_in(run), ""))
      keys.insert(d.key);
  for (Json& run : runs) {
    std::erase_if(run["plan"].get_ref<Json::array_t&>(),
                  [&](const Json& option) { return !keys.contains(option[0]); });
    run.update({{"plan_text", ""}, {"env", Json::object()}, {"toggles", Json::array()}});
    if (runs.size() <= kMostCurves) continue;
    for (const char* split : {"train", "test"})
      for (auto& [name, column] : run[split].get_ref<Json::object_t&>())
        if (!column.empty()) column = {column.back()};
  }
}

static Json read_report(const Path& path, const std::string& name) {
  const Kind kind = kind_of(path, Exit::usage);
  CHECK(kind != Kind::nothing, "report: ", name, ": no such run folder or file");
  if (kind == Kind::folder) return shown_run(path);
  Json report = read_json(path, Exit::data);
  // read_run() makes such an object, with columns of equal length; no verb writes one.
  if (report.is_object() && report.value("kind", Json()) == "run")
    fail(Exit::data, name, ": not a report; of a run, name the folder");
  return report;
}

// Reads all reports. A damaged run in a folder of runs is left out, with a warning.
static std::vector<Json> read_all(const Names& given, const Path& to, std::string& kind) {
  std::vector<Json> reports;
  for (const std::string& each : given) {
    const std::vector<Path> paths = runs_in(each);
    for (const Path& path : paths) try {
        Json report = read_report(path, path.string());
        const std::string its = page_kind(report, path.string());
        if (reports.empty()) kind = its;
        CHECK(its == kind, path.string(), ": its kind is \"", its, "\", that of ", given[0],
              " is \"", kind, "\"; a page shows several reports of one kind");
        if (given.size() + paths.size() > 2)
          report["label"] = (path.has_filename() ? path : path.parent_path()).filename();
        std::error_code unknown;
        const Path page = path / "report.html";
        if (report.contains("label") && kind == "run" && kind_of(page, Exit::usage) == Kind::file)
          report["page"] =
              "./" + std::filesystem::relative(page, "./" / to.parent_path(), unknown).string();
        reports.push_back(report);
      } catch (const Error& error) {
        if (paths.size() == 1) throw;
        warn(cat("report: left out: ", error.what()));
      }
  }
  return reports;
}

static int run_report(CommandLine& line, const Arguments& args) {
  Names given;
  std::string to, kind;
  line.add_option("path", given,
                  "run folder, or a report in JSON, such as that of a comparison; several of them, "
                  "or a folder of runs, share a page")
      .required();
  line.add_option("--out", to,
                  "file to write; without it report.html in the folder, FILE.html beside "
                  "FILE.json, or together.html beside the first of several")
      .value_name("FILE.html");
  if (!line.read(args)) return 0;
  check_place(to, "report: --out");
  CHECK(to.empty() || Path(to).extension() == ".html", "report: --out: ", to,
        ": the page is HTML; name a FILE.html");
  const Path first = given[0];
  if (to.empty())
    to = given.size() > 1                              ? first.parent_path() / "together.html"
         : kind_of(first, Exit::usage) == Kind::folder ? first / "report.html"
                                                       : Path(first).replace_extension(".html");
  std::vector<Json> reports = read_all(given, to, kind);
  CHECK(!reports.empty(), "report: no run of ", given[0], " can be read");
  if (kind == "run" && reports.size() == 1) add_images(reports[0], runs_in(first)[0]);
  if (kind == "run" && reports.size() > 1) shorten(reports);
  write_file(to, bytes_of(page_of(reports, kind)));
  say("page: " + to);
  return 0;
}

static const AddVerb report_verb({"report", "writes a page about a run or a report: one HTML file",
                                  "trainer report runs/lenet", run_report, "use"});

}  // namespace bellows
