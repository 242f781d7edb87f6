// Pages of the reports of profile, ladder, sweep and diagnose, as the program itself writes them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include "labs/page/charts.h"
#include "labs/page/html.h"
#include "labs/page/page.h"
#include "tests/labs/page_checks.h"
#include "tests/refusal.h"
#include "tests/trainer/program.h"

using namespace bellows;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class KindsPage : public Program {
 protected:
  KindsPage() {
    write("c.yaml",
          "model: lenet\ndata: {name: digits, train_size: 64, test_size: 16, batch_size: 8}\n");
  }
  Json report_of(const Args& args, const std::string& json) {
    const std::string out = succeed(args);
    return Json::parse(json.empty() ? out : read(json));
  }
  // The page of `trainer report`.
  std::string page_of(const Json& report) {
    write("x.json", to_line(report));
    succeed({"report", "x.json"});
    const std::string html = read("x.html");
    expect_page(html);
    return html;
  }
  // Without a member, or with an empty one, there is a page or a refusal; names are no HTML.
  void expect_safe(const Json& report) {
    for (const auto& [key, value] : report.items()) {
      if (key == "kind") continue;
      Json less = report, empty = report;
      less.erase(key);
      empty[key] = value.is_array() ? Json::array() : Json::object();
      for (const Json& each : {less, empty}) try {
          html_of(each, "x.json");
        } catch (const Error& error) {
          EXPECT_EQ(error.exit, Exit::data) << key;
          EXPECT_THAT(error.what(), HasSubstr("x.json: not a complete report of the kind")) << key;
        }
    }
    Json hostile = report;
    rename_all(hostile);
    hostile["kind"] = report["kind"];
    if (report["kind"] == "sweep") hostile["keys"] = {{"<img>", {"<img>", "1"}}};
    const std::string html = html_of(hostile, "x.json");
    expect_page(html);
    EXPECT_THAT(html, AllOf(Not(HasSubstr("<img")), HasSubstr("&lt;img")));
    write("cut.json", to_line(report).substr(0, to_line(report).size() / 2));
    expect_refusal({"report", "cut.json"}, 3, "cut.json: no JSON");
    write("cut.json", to_line(Json{{"kind", report["kind"]}}));
    expect_refusal({"report", "cut.json"}, 3, "cut.json: not a complete report of the kind");
  }

 private:
  static void rename_all(Json& json) {
    if (json.is_string()) json = "<img>";
    if (json.is_structured())
      for (Json& each : json) rename_all(each);
  }
};

TEST_F(KindsPage, OfAProfileHasItsUpdateOpsAndMemoryAndAWholeTypicalUpdate) {
  const Json report =
      report_of({"profile", "--config", "c.yaml", "--steps", "2:6", "--json", "p.json"}, "p.json");
  const std::string html = page_of(report);
  for (const char* title : {"Phases", "One update", "Roofline", "Memory at the peak"})
    EXPECT_THAT(html, HasSubstr(fmt::format("<b>{}</b>", title)));
  for (const Json& phase : report["phases"]) EXPECT_THAT(html, HasSubstr(seconds_text(phase["s"])));
  for (const Json& op : report["ops"])
    EXPECT_THAT(html, HasSubstr(fmt::format("<td class=r>{:.3f}</td><td class=r>{:.3f}</td>",
                                            1e3 * op["s"].get<double>(),
                                            1e3 * op["mean_s"].get<double>())));
  EXPECT_THAT(html, HasSubstr(bytes_text(report["memory"]["peak_bytes"])));
  EXPECT_THAT(html,
              HasSubstr(fmt::format("f32 {:.0f} GFLOP/s",
                                    1e-9 * report["ceilings"]["f32_flop_per_s"].get<double>())));
  EXPECT_THAT(html, HasSubstr(" in conv1: "));  // a slice, for the pointer
  expect_safe(report);
  const Json& update = report["typical_update"];
  const double length = 1e9 * update["s"].get<double>();
  double ops = 0, gaps = 0;
  for (const Json& op : update["ops"]) ops += op["ns"].get<double>();
  for (const Json& gap : update["gaps"]) gaps += gap["ns"].get<double>();
  EXPECT_NEAR(ops + gaps, length, 0.01 * length);
  double at = 0, most = 0;
  for (const Json& point : update["bytes_in_use"]) {
    EXPECT_GE(point[0].get<double>(), at);
    at = point[0], most = std::max(most, point[1].get<double>());
  }
  EXPECT_LE(at, length);
  const double peak = report["memory"]["peak_bytes"];
  EXPECT_LE(most, peak);
  EXPECT_GT(most, 0.5 * peak);
}

TEST_F(KindsPage, OfALadderHasEachStepAndWhatWasLeftOut) {
  const Json report = report_of(
      {"ladder", "--config", "c.yaml", "--steps", "2", "--blocks", "2", "--warmup", "2",
       "--processes", "2", "--toggles", "num_workers=2,fused_optimizer", "--report", "r.md"},
      "r.json");
  const std::string html = page_of(report);
  EXPECT_EQ(html, read("r.html"));
  EXPECT_THAT(html, AllOf(HasSubstr("<b>+ num_workers=2</b>"), HasSubstr("<b>plain</b>"),
                          HasSubstr("<li>fused_optimizer</li>")));
  for (const Json& step : report["steps"])
    EXPECT_THAT(html, HasSubstr(fmt::format("<em class=more>{:.3f} ×",
                                            step["speedup"]["ratio"].get<double>())));
  for (const Json& arm : report["without"])
    EXPECT_THAT(html, HasSubstr(fmt::format(">{:.3f} ×", arm["slowdown"]["ratio"].get<double>())));
  expect_safe(report);
}

TEST_F(KindsPage, OfASweepOfWorkersHasTheLaw) {
  const Json report = report_of({"sweep", "--config", "c.yaml", "--steps", "2", "--warmup", "2",
                                 "--blocks", "2", "--processes", "2", "--key", "num_workers=0,2",
                                 "--report", "r.md", "data.sim_latency_us=5000"},
                                "r.json");
  const std::string html = page_of(report);
  EXPECT_EQ(html, read("r.html"));
  EXPECT_THAT(html,
              AllOf(HasSubstr("<b>Time of a step</b>"),
                    HasSubstr(cat("whose knee is at ", report["laws"][0]["knee"].get<int64_t>())),
                    HasSubstr("<b class=b>predicted</b>")));
  for (const Json& arm : report["arms"]) EXPECT_THAT(html, HasSubstr(short_number(arm["ips"])));
  expect_safe(report);
}

TEST_F(KindsPage, OfASweepOfTwoKeysIsAMap) {
  const Json report =
      report_of({"sweep", "--config", "c.yaml", "--steps", "2", "--warmup", "1", "--blocks", "1",
                 "--processes", "1", "--key", "data.batch_size=4,8", "--key",
                 "fused_optimizer=off,on", "--report", "r.md"},
                "r.json");
  const std::string html = page_of(report);
  for (const Json& arm : report["arms"])
    EXPECT_THAT(html, HasSubstr(fmt::format("%\">{}</td>", short_number(arm["ips"]))));
  EXPECT_THAT(html, HasSubstr("batch_size ↓  fused_optimizer →"));
}

TEST_F(KindsPage, OfADiagnosisHasItsFindingsAndRemedies) {
  Json report = report_of(
      {"diagnose", "--config", "c.yaml", "--seconds", "0.3", "--json", "toggles=none"}, "");
  report["findings"].push_back({{"rule", "planted"},
                                {"text", "a < b"},
                                {"saves_s", 0.5 * report["batch_cost"].get<double>()},
                                {"most_speedup", 2.0},
                                {"remedies", {"toggles.x=on"}},
                                {"advice", "more memory"}});
  const std::string html = page_of(report);
  EXPECT_THAT(html, AllOf(HasSubstr("<b>An update</b>"), HasSubstr("at most 2.00 ×"),
                          HasSubstr("<p>a &lt; b</p>"), HasSubstr("<pre>toggles.x=on</pre>"),
                          HasSubstr("More memory")));
  for (size_t i = 0; i < std::min<size_t>(10, report["ops"].size()); ++i)
    EXPECT_THAT(html, HasSubstr(seconds_text(report["ops"][i]["s"])));
  expect_safe(report);
}

// A folder says less than a measurement.
TEST_F(KindsPage, OfADiagnosisOfAFolderIsAPage) {
  succeed(tiny({}));
  const std::string html = page_of(report_of({"diagnose", "runs/run", "--json"}, ""));
  EXPECT_THAT(html, AllOf(HasSubstr("from the log of the run"), Not(HasSubstr(" of 4<"))));
}

TEST(KindsChart, LeavesOutWhatItCannotDraw) {
  EXPECT_EQ(bar_chart("t", "", {{"a", "", 0}}), "");
  EXPECT_EQ(bar_chart("t", "", {}), "");
  EXPECT_EQ(roofline({"t", "", 1e9, {{"f32", 1e9}}, {{"a", Tone::accent, 0, 1}}}), "");
  const Series line{"s", Tone::accent, {0, 4}, {1, 2}};
  const auto marked = [&](double x) {
    return line_chart({.title = "t", .series = {line}, .mark = x, .mark_name = "knee"});
  };
  EXPECT_THAT(marked(1), HasSubstr("left:25%;top:-18px\">knee<"));
  for (const double x : {5.0, double(NAN)}) EXPECT_THAT(marked(x), Not(HasSubstr("knee")));
  EXPECT_EQ(heat_table("t", "", {"a", "b", {"1"}, {"2"}, {{NAN}}}), "");
  const std::string html = bar_chart("t", "", {{"<a>", "<b>", 2, Tone::quiet, NAN, NAN, 4}});
  EXPECT_EQ(unbalanced(html), "");
  EXPECT_THAT(html,
              AllOf(HasSubstr("before style=\"width:100.00%"), HasSubstr("c style=\"width:50."),
                    HasSubstr("&lt;a&gt;"), Not(HasSubstr("nan"))));
}
