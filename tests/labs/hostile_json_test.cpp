// Files of a run whose JSON no run writes: a page, or one line and the documented exit code.
#include <unistd.h>
#include <nlohmann/json.hpp>
#include "core/base/json.h"
#include "tests/labs/page_checks.h"
#include "tests/trainer/program.h"

using namespace bellows;

class HostileJson : public Program {
 protected:
  void SetUp() override { succeed(tiny({"log={every: 1, tensorboard: false}"})); }
  static void limited() {
    alarm(60);
    const rlimit memory = {3ul << 30, 3ul << 30};
    setrlimit(RLIMIT_AS, &memory);
  }
};

TEST_F(HostileJson, OfARunThatIsDeepIsRefusedByEveryVerb) {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  for (const std::string file : {"env.json", "end.json", "metrics.jsonl"}) {
    const std::string path = "runs/run/" + file, before = read(path);
    write(path, cat("{\"a\": ", deep, "}\n"));
    for (const Args& args : {Args{"report", "runs/run"}, Args{"compare", "runs/run", "runs/run"},
                             Args{"diagnose", "runs/run"}})
      expect_refusal(args, 3, "nested deep", limited);
    write(path, before);
  }
}

TEST_F(HostileJson, OfARunWithOtherTypesAndExtremeNumbersIsAPage) {
  const std::vector<Json> whole = rows("runs/run");
  for (const Json& value : {Json("NaN"), Json(nullptr), Json::array({1, "x"}),
                            Json::object({{"a", 1}}), Json(1e-320), Json(UINT64_MAX)}) {
    std::string text;
    for (Json row : whole) {
      for (const char* key : {"ts", "loss", "batch_cost", "cpu_cores"}) row[key] = value;
      text += row.dump() + "\n";
    }
    write("runs/run/metrics.jsonl", text);
    succeed({"report", "runs/run"}, limited);
    succeed({"compare", "runs/run", "runs/run"}, limited);
    expect_page(read("runs/run/report.html"));
  }
}
