// Pages of `trainer report`: complete, self-contained, safe whatever a name holds, and with the
// numbers of their reports.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include "labs/page/page.h"
#include "tests/labs/page_checks.h"
#include "tests/refusal.h"

using namespace bellows;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

// ---- any page

class Report : public Program {};  // without node

TEST(Page, EscapesWhatHtmlOrATerminalWouldObey) {
  EXPECT_EQ(escaped("<a href=\"x\">'&'"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;");
  EXPECT_EQ(escaped("\x1b\xff\xe2\x80\xae"), "\\x1b\\xff\\xe2\\x80\\xae");
}

TEST(Page, HoldsItsReportAndShowsItsTextWithoutScripts) {
  Json report = {{"kind", "ladder"}, {"text", "a </pre><b>"}, {"busy", {"</script><!--\xff"}}};
  for (const char* key : {"plain", "placebo", "steps", "without", "left_out", "config", "command"})
    report[key] = Json::object();
  EXPECT_EQ(refusal([&] { page_kind(report, "x.json"); }),
            "x.json: not a complete report of the kind \"ladder\": it has no \"machine\"");
  report["machine"] = Json::object();
  const std::string html = page_of({report}, page_kind(report, "x.json"));
  expect_page(html);
  EXPECT_THAT(html, AllOf(HasSubstr("<noscript><pre>a &lt;/pre&gt;&lt;b&gt;</pre></noscript>"),
                          HasSubstr("\\u003c/script>\\u003c!--"), HasSubstr("pages.ladder = "),
                          Not(HasSubstr("pages.sweep = "))));
  EXPECT_EQ(report_in(html)["busy"][0], "</script><!--\xef\xbf\xbd");
}

TEST_F(Pages, DrawWhatTheirChartsAreTold) {
  const std::string root = source_dir();
  EXPECT_EQ(
      std::system(cat("node ", root, "/tests/labs/charts_test.js ", root, "/labs/page").c_str()),
      0);
}

TEST_F(Report, RefusesWhatIsNoReport) {
  expect_refusal({"report", "r.json", "--out", "r.json"}, 2, "the page is HTML; name a FILE.html");
  expect_refusal({"report", "nothing"}, 2, "nothing: no such run folder or file");
  expect_refusal({"report", "."}, 2, ".: not a run folder, it has no plan.yaml");
  for (const auto& [text, exit, why] :
       {std::tuple("[1", 3, "no JSON"),
        {"{\"x\": 1}", 2, "not a report, it has no \"kind\"; there are pages for ab, diagnose, "},
        {"{\"kind\": 7}", 2, "not a report"},
        {"{\"kind\": \"x\"}", 2, "no page shows a report of the kind \"x\""},
        {"{\"kind\": \"run\", \"plan\": []}", 3, "not a report; of a run, name the folder"},
        {"{\"kind\": \"ab\", \"off\": 3}", 3, "not a complete report of the kind \"ab\""}}) {
    write("a.json", text);
    expect_refusal({"report", "a.json"}, exit, cat("a.json: ", why));
  }
  succeed(tiny({}));
  write("runs/run/metrics.jsonl", "{\"step\": 1}\nbroken\n{\"step\": 2}\n");
  expect_refusal({"report", "runs/run"}, 3,
                 "metrics.jsonl:2: not a row: no JSON at byte 1; the file is damaged");
  write("runs/run/env.json", "[]");
  expect_refusal({"report", "runs/run"}, 3, "env.json: not a JSON object");
}

// ---- run folders

class RunPage : public Pages {
 protected:
  std::string body_of_run(const std::string& run = "runs/run") {
    EXPECT_EQ(succeed({"report", run}), cat("page: ", run, "/report.html\n"));
    return body_of(run + "/report.html");
  }
};

TEST_F(RunPage, HasItsNumbersAsText) {
  const std::string out = succeed(tiny({"toggles={fused_bn_act: on}"})), body = body_of_run();
  const std::vector<Json> train = rows("runs/run", "train"), test = rows("runs/run", "test");
  ASSERT_EQ(train.size(), 4u);
  EXPECT_THAT(body,
              AllOf(HasSubstr(fmt::format("<dd>{:.2f} %</dd>",
                                          100 * test.back()["accuracy"].get<double>())),
                    HasSubstr(fmt::format("<dd>{:.4f}</dd>", train.back()["loss"].get<double>()))));
  for (const char* title :
       {"Loss", "Accuracy", "Samples a second", "Time of a step", "The whole run", "Memory", "CPU"})
    EXPECT_THAT(body, HasSubstr(cat("<b>", title, "</b>")));
  EXPECT_THAT(body, HasSubstr("<code>data.batch_size</code></td><td>16</td><td>command line"));
  EXPECT_THAT(body, AllOf(HasSubstr("<dt>cpu</dt>"), HasSubstr("<dt>compiler</dt>")));
  const size_t ran = body.find("<h3>Ran "), never = body.find("<h3>Never ran ");
  EXPECT_LT(ran, body.find("<li>fused_loss</li>"));
  EXPECT_LT(body.find("<li>fused_loss</li>"), never);
  EXPECT_LT(never, body.find("<li class=off>fused_bn_act</li>"));
  const std::string html = read("runs/run/report.html"), hash = "params hash: " + hash_in(out);
  EXPECT_THAT(html.substr(html.find("<noscript>"), html.find("</noscript>")), HasSubstr(hash));
  EXPECT_THAT(body, HasSubstr(hash));
  const Json env = Json::parse(read("runs/run/env.json"));
  EXPECT_THAT(html, Not(HasSubstr(cat('"', env["host"].get<std::string>(), '"'))));
}

TEST_F(RunPage, HasTheImagesThatTheCheckpointJudges) {
  succeed(tiny({}));
  const std::string body = body_of_run();
  const Json images = report_in(read("runs/run/report.html"))["images"];
  double right = 0, all = 0;
  for (const Json& pair : images["pairs"]) {
    all += pair[2].get<double>();
    if (pair[0] == pair[1]) right += pair[2].get<double>();
  }
  EXPECT_EQ(all, images["samples"].get<double>());
  EXPECT_NEAR(right / all, rows("runs/run", "test").back()["accuracy"].get<double>(), 1e-6);
  double loss = INFINITY;
  for (const Json& worst : images["worst"]) {
    EXPECT_LE(worst["loss"], loss);
    loss = worst["loss"];
    EXPECT_TRUE(worst["jpeg"].get<std::string>().starts_with("/9j/"))
        << "a JPEG file's first bytes";
  }
  EXPECT_THAT(body, AllOf(HasSubstr("<b>Accuracy by class</b>"), HasSubstr("<b>Confusion</b>"),
                          HasSubstr("<b>Worst images</b>"), HasSubstr("<b>Last batch</b>")));
  EXPECT_LT(read("runs/run/report.html").size(), 200'000u);
}

TEST_F(RunPage, SaysThatItsImagesAreMissing) {
  succeed(tiny({}));
  fs::remove_all(folder_ / "runs/run/checkpoints");
  const Ended report = run({"report", "runs/run"});
  EXPECT_EQ(report.code, 0);
  EXPECT_THAT(report.err, HasSubstr("warning: report: the page lacks images: "));
  EXPECT_THAT(body_of("runs/run/report.html"), HasSubstr("<p>Missing: when this page was made"));
}

TEST_F(RunPage, OfSeveralRunsOverlaysCurvesAndListsOptionsThatDiffer) {
  succeed(tiny({}));
  succeed(tiny({"optimizer.lr=0.003", "name=slow"}));
  EXPECT_EQ(succeed({"report", "runs/run", "runs/slow"}), "page: runs/together.html\n");
  std::string body = body_of("runs/together.html");
  EXPECT_THAT(body,
              AllOf(HasSubstr("<h1>2 runs</h1>"), HasSubstr("<b>Training loss</b>"),
                    HasSubstr("<b>Accuracy</b>"), HasSubstr("<code>optimizer.lr</code></td><td>"),
                    HasSubstr("<td>0.003</td>")));
  EXPECT_THAT(body, Not(HasSubstr("<code>data.batch_size</code>")));
  EXPECT_EQ(report_in(read("runs/together.html"))[1]["plan"].size(), 4u)
      << "name, model, data, and the option that differs";
  for (const char* name : {"run", "slow"})
    EXPECT_THAT(body, HasSubstr(fmt::format("<td>{}</td><td>{}</td>", name, name)));
  succeed({"report", "runs/slow"});
  EXPECT_EQ(succeed({"report", "runs"}), "page: runs/report.html\n");
  body = body_of("runs/report.html");
  EXPECT_THAT(
      body, AllOf(HasSubstr("<a href=\"./slow/report.html\">slow</a>"), HasSubstr("<td>run</td>")));
  write("runs/slow/env.json", "[]");
  const Ended index = run({"report", "runs"});
  EXPECT_EQ(index.code, 0);
  EXPECT_THAT(index.err, HasSubstr("report: left out: "));
}

TEST_F(RunPage, WithoutAnEndSaysSo) {
  succeed(tiny({}));
  std::string rest = read("runs/run/metrics.jsonl");
  rest = rest.substr(0, rest.find("{", rest.find("\"test\"")));
  write("runs/run/metrics.jsonl", rest + "{\"ts\":17");  // killed while it wrote a row
  fs::remove(folder_ / "runs/run/end.json");
  const std::string body = body_of_run();
  EXPECT_THAT(body,
              AllOf(HasSubstr("no end is recorded"), HasSubstr("<b>Loss<"), HasSubstr("<h3>On ")));
  for (const char* off : {"gradient_accumulation=1", "kernel_autotune=heuristic"})
    EXPECT_THAT(body, Not(HasSubstr(off)));
}

TEST_F(RunPage, OfNoUpdateIsAPage) {
  succeed(tiny({"train.epochs=0"}));
  EXPECT_THAT(body_of_run(), HasSubstr("<h1>run</h1>"));
}

// ---- reports of verbs, as the program itself writes them

class ReportPage : public Pages {
 protected:
  ReportPage() {
    write("c.yaml",
          "model: lenet\ndata: {name: digits, train_size: 64, test_size: 16, batch_size: 8}\n");
  }
  // Runs a verb that writes r.md, r.json and r.html. Returns the report.
  Json report_of(Args args) {
    succeed(
        with({args[0], "--config", "c.yaml", "--report", "r.md"}, {args.begin() + 1, args.end()}));
    const Json report = Json::parse(read("r.json"));
    EXPECT_EQ(report["text"], read("r.md"));
    succeed({"report", "r.json", "--out", "again.html"});
    EXPECT_EQ(read("r.html"), read("again.html"));
    return report;
  }
  static std::string times(const Json& speedup) {
    return fmt::format("{:.3f} ×", speedup["ratio"].get<double>());
  }
};

TEST_F(ReportPage, OfAbHasItsNumbersAndAFailure) {
  Json report = report_of({"ab", "--toggle", "fused_optimizer", "--processes", "2", "--blocks", "2",
                           "--steps", "3", "--warmup", "2"});
  const std::string body = body_of("r.html");
  EXPECT_THAT(body,
              AllOf(HasSubstr("<h1>fused_optimizer=off against fused_optimizer=on</h1>"),
                    HasSubstr(times(report["on"][0]["speedup"])),
                    HasSubstr(times(report["placebo"]["speedup"])), HasSubstr("% interval"),
                    HasSubstr("<b>Speedup<"), HasSubstr("<b>Times<"), HasSubstr("<b>Loss<"),
                    HasSubstr("<code>optim.fused_launches</code></td><td class=r>0<"),
                    HasSubstr(report["command"].get<std::string>()), Not(HasSubstr("FAILED"))));
  EXPECT_THAT(body, Not(HasSubstr("energy")));
  report["on"][0]["losses_hold"] = false;
  report["on"][0]["processes"][1]["gpu_j_per_step"] = {2, 2};  // an arm on the CPU has no energy
  EXPECT_THAT(body_of_report(report), AllOf(HasSubstr("<span class=bad>FAILED</span>"),
                                            HasSubstr("<td class=r>2 J (2 to 2)</td>")));
}

TEST_F(ReportPage, OfALadderHasEachStepAndWhatWasLeftOut) {
  const Json report = report_of({"ladder", "--steps", "2", "--blocks", "2", "--warmup", "2",
                                 "--processes", "2", "--toggles", "num_workers=2,fused_optimizer"});
  const std::string body = body_of("r.html");
  EXPECT_THAT(body, AllOf(HasSubstr("<b>+ num_workers=2</b>"), HasSubstr("<b>plain</b>"),
                          HasSubstr("<li>fused_optimizer</li>")));
  for (const Json& step : report["steps"])
    EXPECT_THAT(body, HasSubstr("<em class=more>" + times(step["speedup"])));
  for (const Json& arm : report["without"])
    EXPECT_THAT(body, HasSubstr(">" + times(arm["slowdown"])));
}

TEST_F(ReportPage, OfATuningHasEachChange) {
  const Json report = report_of({"tune", "--out", "fast.yaml", "--budget", "8s"});
  const std::string body = body_of("r.html");
  for (const Json& change : report["changes"])
    EXPECT_THAT(body, HasSubstr("<code>" + change["name"].get<std::string>() + "</code>"));
  EXPECT_THAT(body, HasSubstr("<code>fast.yaml</code>"));
}

TEST_F(ReportPage, OfASweepOfWorkersHasTheLaw) {
  const Json report =
      report_of({"sweep", "--steps", "2", "--warmup", "2", "--blocks", "2", "--processes", "2",
                 "--key", "num_workers=0,2", "data.sim_latency_us=5000"});
  EXPECT_THAT(body_of("r.html"),
              AllOf(HasSubstr("<b>Time of a step</b>"),
                    HasSubstr(cat("whose knee is at ", report["laws"][0]["knee"].get<int64_t>())),
                    HasSubstr("<b class=b>predicted</b>")));
}

TEST_F(ReportPage, OfASweepOfTwoKeysIsAMap) {
  const Json report =
      report_of({"sweep", "--steps", "2", "--warmup", "1", "--blocks", "1", "--processes", "1",
                 "--key", "data.batch_size=4,8", "--key", "fused_optimizer=off,on"});
  const std::string body = body_of("r.html");
  EXPECT_THAT(body, HasSubstr("batch_size ↓  fused_optimizer →"));
  for (const char* row : {"4", "8"})
    EXPECT_THAT(body, HasSubstr(cat("<tr><td>", row, "</td><td class=r style=\"--h:")));
}

TEST_F(ReportPage, OfAProfileHasItsUpdateOpsAndMemory) {
  const std::string out =
      succeed({"profile", "--config", "c.yaml", "--steps", "2:6", "--json", "p.json"});
  const Json report = Json::parse(read("p.json"));
  EXPECT_THAT(out, HasSubstr(report["text"].get<std::string>()));
  const std::string body = body_of_report(report);
  for (const char* title : {"Phases", "One update", "Roofline", "Memory at the peak"})
    EXPECT_THAT(body, HasSubstr(cat("<b>", title, "</b>")));
  for (const Json& op : report["ops"])
    EXPECT_THAT(body, HasSubstr(fmt::format("<td class=r>{:.3f}</td><td class=r>{:.3f}</td>",
                                            1e3 * op["s"].get<double>(),
                                            1e3 * op["mean_s"].get<double>())));
  EXPECT_THAT(body,
              HasSubstr(fmt::format("f32 {:.0f} GFLOP/s",
                                    1e-9 * report["ceilings"]["f32_flop_per_s"].get<double>())));
  for (const Json& thread : report["thread_states"])
    EXPECT_THAT(body, HasSubstr(fmt::format("<code>{}</code></td><td class=r>{:.1f} %</td>",
                                            thread["name"].get<std::string>(),
                                            100 * thread["running"].get<double>())));
  EXPECT_THAT(body, HasSubstr(" in conv1: "));  // a slice, for the pointer
}

TEST_F(ReportPage, OfTwoProfilesHasTheirPartsOneAboveTheOther) {
  succeed({"profile", "--config", "c.yaml", "--steps", "2:6", "--json", "p.json"});
  Json report = Json::parse(read("p.json"));
  write("b.json", to_line(report));
  const Json bucket = {{"name", "bucket 0 (a)"}, {"begin_ns", 1000}, {"ns", 500}},
             wait = {{"name", "wait_for_buckets"}, {"begin_ns", 1200}, {"ns", 300}};
  report["ranks"] = {{{"begin_ns", 0},
                      {"s", 2e-6},
                      {"step", 3},
                      {"all_reduce_s", 0.002},
                      {"exposed_s", 0.0005},
                      {"max_mem_allocated", 1'500'000},
                      {"peak_resident_bytes", 90'000'000},
                      {"shares_clock", true},
                      {"ops", Json::array()},
                      {"waits", {wait}},
                      {"buckets", {bucket}}}};
  write("a.json", to_line(report));
  EXPECT_EQ(succeed({"report", "a.json", "b.json"}), "page: together.html\n");
  const std::string body = body_of("together.html");
  EXPECT_THAT(body, AllOf(HasSubstr("<h3>a.json</h3>"), HasSubstr("<h3>b.json</h3>"),
                          HasSubstr("<b>All ranks</b>"), HasSubstr("bucket 0 (a): 0.001 ms"),
                          HasSubstr("<td class=r>2.000</td><td class=r>1.500</td>"),
                          HasSubstr("<td class=r>1.5 MB</td><td class=r>90.0 MB</td>")));
  write("c.json", succeed({"diagnose", "--config", "c.yaml", "--seconds", "0.3", "--json"}));
  expect_refusal({"report", "a.json", "c.json"}, 2, "c.json: its kind is \"diagnose\", that of ");
  write("c.json", R"({"kind": "x"})");
  expect_refusal({"report", "a.json", "c.json"}, 2, "no page shows a report of the kind \"x\"");
}

TEST_F(ReportPage, OfADiagnosisHasItsFindingsAndRemedies) {
  Json report = Json::parse(
      succeed({"diagnose", "--config", "c.yaml", "--seconds", "0.3", "--json", "toggles=none"}));
  EXPECT_THAT(report["text"].get<std::string>(), HasSubstr("limit: "));
  report["findings"].push_back({{"rule", "planted"},
                                {"text", "a < b"},
                                {"saves_s", 0.5 * report["batch_cost"].get<double>()},
                                {"most_speedup", 2.0},
                                {"remedies", {"toggles.x=on"}},
                                {"advice", "more memory"}});
  EXPECT_THAT(body_of_report(report),
              AllOf(HasSubstr("<b>An update</b>"), HasSubstr("at most 2.00 ×"),
                    HasSubstr("<p>a &#60; b</p>"), HasSubstr("<pre>toggles.x=on</pre>"),
                    HasSubstr("More memory")));
}

// A folder says less than a measurement.
TEST_F(ReportPage, OfADiagnosisOfAFolderIsAPage) {
  succeed(tiny({}));
  EXPECT_THAT(body_of_report(Json::parse(succeed({"diagnose", "runs/run", "--json"}))),
              AllOf(HasSubstr("from the log of the run"), Not(HasSubstr(" of 4<"))));
}
