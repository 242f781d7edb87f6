// trainer report PATH: the page of a run folder or of a report in JSON (labs/page/page.h).
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include "core/base/file.h"
#include "core/base/output.h"
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

static int run_report(CommandLine& line, const Arguments& args) {
  std::string from, to;
  line.add_option("path", from, "run folder, or a report in JSON, such as one of trainer ab")
      .required();
  line.add_option(
          "--out", to,
          "file to write; without it report.html in the run folder, or FILE.html beside FILE.json")
      .value_name("FILE.html");
  if (!line.read(args)) return 0;
  check_place(to, "report: --out");
  CHECK(to.empty() || Path(to).extension() == ".html", "report: --out: ", to,
        ": the page is HTML; name a FILE.html");
  const Path path = from;
  const Kind kind = kind_of(path, Exit::usage);
  CHECK(kind != Kind::nothing, "report: ", from, ": no such run folder or file");
  if (to.empty())
    to = (kind == Kind::folder ? path / "report.html" : Path(path).replace_extension(".html"));
  const Json report = kind == Kind::folder ? shown_run(path) : read_json(path, Exit::data);
  // read_run() makes such an object, with columns of equal length; no verb writes one.
  if (kind != Kind::folder && report.is_object() && report.value("kind", Json()) == "run")
    fail(Exit::data, from, ": not a report; of a run, name the folder");
  write_file(to, bytes_of(html_of(report, from)));
  say("page: " + to);
  return 0;
}

static const AddVerb report_verb({"report", "writes a page about a run or a report: one HTML file",
                                  "trainer report runs/lenet", run_report, "use"});

}  // namespace bellows
