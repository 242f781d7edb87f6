// Run folders, reports and metadata of checkpoints that somebody else has written: one line and the
// documented exit code, whatever their JSON holds.
#include <gmock/gmock.h>
#include <unistd.h>
#include <nlohmann/json.hpp>
#include "core/base/json.h"
#include "core/tensor/safetensors.h"
#include "tests/labs/page_checks.h"
#include "tests/refusal.h"
#include "tests/trainer/program.h"
#include "trainer/log/system.h"

using namespace bellows;

static std::string deep() { return std::string(200'000, '[') + std::string(200'000, ']'); }

class HostileJson : public Program {
 protected:
  // Makes a run, and keeps its rows of metrics.jsonl.
  void SetUp() override {
    succeed(tiny({"log={every: 1, tensorboard: false}"}));
    rows_ = rows("runs/run");
  }
  // Writes the rows, each changed by `change`.
  void write_rows(const std::function<void(Json&)>& change) const {
    std::string text;
    for (Json row : rows_) change(row), text += row.dump() + "\n";
    write("runs/run/metrics.jsonl", text);
  }
  // Expects a page, and two runs that can be compared.
  void expect_readable(const std::string& what) {
    const Ended page = run({"report", "runs/run"}, limited), both = compare();
    EXPECT_EQ(page.code, 0) << what << page.err;
    EXPECT_EQ(both.code, 0) << what << both.err;
    expect_page(read("runs/run/report.html"));
  }
  void expect_refused(const std::string& file, const std::string& text, const std::string& why) {
    const std::string before = read(cat("runs/run/", file));
    write(cat("runs/run/", file), text);
    for (const Args& args : {Args{"report", "runs/run"}, Args{"compare", "runs/run", "runs/run"},
                             Args{"diagnose", "runs/run"}})
      expect_refusal(args, 3, why, limited);
    write(cat("runs/run/", file), before);
  }
  Ended compare() { return run({"compare", "runs/run", "runs/run"}, limited); }
  static void limited() {
    alarm(60);
    const rlimit memory = {3ul << 30, 3ul << 30};
    setrlimit(RLIMIT_AS, &memory);
  }

  std::vector<Json> rows_;
};

TEST_F(HostileJson, OfARunThatIsDeepIsRefused) {
  const std::string row = R"({"step": 9, "split": "train", "x": )";
  for (const char* file : {"env.json", "end.json", "metrics.jsonl"})
    expect_refused(file, deep() + "\n", cat(file, file[0] == 'm' ? ":1" : "", ": "));
  for (const char* file : {"env.json", "end.json"})
    expect_refused(file, cat("{\"a\": ", deep(), "}"), "json: nested deeper than 32");
  const std::string rows = read("runs/run/metrics.jsonl");
  expect_refused("metrics.jsonl", cat(rows, row, deep(), "}\n"),
                 cat("jsonl:", rows_.size() + 1, ": not a row: nested deep"));
  expect_refused("metrics.jsonl", cat(rows, std::string(200'000, '['), "\n"),
                 cat("jsonl:", rows_.size() + 1, ": not a row"));
}

TEST_F(HostileJson, OfARunWhoseColumnsOutgrowTheFileIsRefused) {
  std::string diagonal, wide = R"({"step": 1, "split": "train")", late;
  for (int i = 0; i < 12'000; ++i)
    diagonal += cat(R"({"step": )", i, R"(, "split": "train", "c)", i, "\": 1}\n");
  for (int i = 0; i < 100'000; ++i) wide += cat(", \"c", i, "\": 1");
  for (int i = 0; i < 20'000; ++i) late += "{\"step\":1,\"split\":\"train\"}\n";
  late += R"({"step": 1, "split": "train")";
  for (int i = 0; i < 900; ++i) late += cat(", \"c", i, "\": 1");
  for (const std::string& text : {diagonal, wide + "}\n", late + "}\n"})
    expect_refused("metrics.jsonl", text, "too many columns");
}

TEST_F(HostileJson, OfARunWithoutAColumnIsAPage) {
  for (const char* key : {"reader_cost", "batch_cost", "loss", "lr", "ips", "ts", "epoch"}) {
    write_rows([&](Json& row) { row.erase(key); });
    expect_readable(key);
  }
}

TEST_F(HostileJson, OfARunWithOtherTypesAndExtremeNumbersIsAPageOrRefused) {
  for (const Json& value : {Json("NaN"), Json(nullptr), Json::array({1, "x"}),
                            Json::object({{"a", 1}}), Json(1e-320), Json(UINT64_MAX)}) {
    write_rows([&](Json& row) {
      for (const char* key : {"ts", "loss", "batch_cost", "cpu_cores"}) row[key] = value;
    });
    expect_readable(value.dump());
  }
  int n = 0;  // quotient of the largest and the least beyond the range of a double
  write_rows([&](Json& row) { row["loss"] = ++n % 2 ? 1e-320 : 1e40; });
  expect_readable("range");
  std::string rows;
  for (const Json& row : rows_) rows += row.dump() + "\n";
  for (const char* key : {"ts", "loss", "step"})
    expect_refused("metrics.jsonl",
                   cat(rows, R"({"split": "train", "step": 1, "y": 0, ")",
                       std::string(key) == "step" ? "x" : key, "\": 1e300}\n"),
                   "a number beyond 1e+50");
  write("runs/run/metrics.jsonl",
        rows + R"({"split": "train", "step": 99, "step": 2, "lr": 1, "lr": 2})" + "\n");
  expect_readable("twice");
}

TEST_F(HostileJson, OfAnEndWithOtherTypesIsRefused) {
  const Json end = Json::parse(read("runs/run/end.json"));
  for (const Json& bad : {Json({{"toggles", {{{"name", 1}, {"value", "on"}, {"count", 1}}}}}),
                          Json({{"toggles", {{{"name", "amp"}, {"count", 1}}}}}),
                          Json({{"toggles", {Json::array()}}}), Json({{"summary", {1}}})}) {
    Json changed = end;
    changed.update(bad);
    expect_refused("end.json", changed.dump(), "end.json: a summary or a toggle without its text");
  }
  for (const char* env : {R"({"cpu": "x", "cores": 1e49})", R"({"cpu": "x", "cores": 0.5})",
                          R"({"cpu": "x", "versions": [[["a"]]], "libraries": {"a": 1}})"}) {
    write("runs/run/env.json", env);
    expect_readable(env);
    EXPECT_EQ(run({"diagnose", "runs/run"}, limited).code, 0) << env;
  }
}

TEST_F(HostileJson, OfACheckpointIsRefused) {
  const std::string path = "runs/run/checkpoints/step_00000008.safetensors";
  const SafeTensors saved = read_safetensors(folder_ / path);
  for (const auto& [key, verb] : {std::pair("position", "--resume"),
                                  {"step_state", "--resume"},
                                  {"rate_state", "--resume"},
                                  {"plan", "--resume"},
                                  {"plan", "eval"},
                                  {"dataset", "eval"},
                                  {"dataset", "export"}})
    for (const std::string& text : {deep(), cat("{\"a\": ", deep(), "}")}) {
      SafeTensors hostile = saved;
      hostile.metadata[key] = text;
      write_safetensors(folder_ / path, hostile.tensors, hostile.metadata);
      Args args = verb[0] == '-' ? tiny({verb, path}) : Args{verb, path};
      if (args[0] == "export") args.emplace_back("x.safetensors");
      expect_refusal(args, 4, cat("the checkpoint's '", key, "' cannot be read: nested deeper"),
                     limited);
    }
}

TEST_F(HostileJson, OfAReportIsRefused) {
  for (const std::string& text :
       {deep(), std::string(200'000, '['), cat(R"({"kind": "ab", "off": )", deep(), "}"),
        std::string(R"({"kind": "run", "plan": [[]]})"), std::string(R"({"kind": "ladder"})"),
        std::string(R"({"kind": "sweep", "keys": {"a": [1]}, "arms": 7})")}) {
    write("r.json", text);
    expect_refusal({"report", "r.json"}, 3, "r.json: ", limited);
  }
}

TEST(HostileReport, HasADateWhateverItsTimeIs) {
  EXPECT_EQ(date_text(1.7e9), "2023-11-14 22:13 UTC");
  EXPECT_EQ(date_text(-5), "1970-01-01 00:00 UTC");
  EXPECT_EQ(date_text(1e50), "9999-12-31 23:59 UTC");
}
