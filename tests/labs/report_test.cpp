// Pages of `trainer report`: complete, self-contained, safe whatever a name holds, and with every
// number as text.
#include <gmock/gmock.h>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include "core/base/json.h"
#include "core/base/statistics.h"
#include "labs/page/charts.h"
#include "labs/page/figure.h"
#include "labs/page/html.h"
#include "labs/page/page.h"
#include "tests/labs/page_checks.h"
#include "tests/refusal.h"
#include "tests/trainer/program.h"

using namespace bellows;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

// ---- checks of any page

TEST(PageChecks, FindWhatIsPlanted) {
  EXPECT_EQ(unbalanced("<p class=x>a<b>c</b></p>"), "");
  EXPECT_EQ(unbalanced("<p><b>c</p>"), "/p");
  EXPECT_EQ(unbalanced("<p>"), "p");
}

// ---- run folders

class Report : public Program {
 protected:
  std::string page_of(const std::string& path, const std::string& file) {
    const std::string out = succeed({"report", path});
    EXPECT_EQ(out, cat("page: ", file, "\n"));
    const std::string html = read(file);
    expect_page(html);
    return html;
  }
};

TEST_F(Report, OfARunHasItsNumbersAsText) {
  succeed(tiny({"toggles={fused_bn_act: on}"}));
  const std::string html = page_of("runs/run", "runs/run/report.html");
  const std::vector<Json> train = rows("runs/run", "train"), test = rows("runs/run", "test");
  ASSERT_EQ(train.size(), 4u);
  std::vector<double> ips;
  for (const Json& row : train) ips.push_back(row["ips"]);
  for (const std::string& number :
       {percent_text(test.back()["accuracy"]), short_number(test.back()["loss"]),
        short_number(train.back()["loss"]), short_number(train[1]["loss"]),
        short_number(train[2]["batch_cost"]), short_number(median(ips))})
    EXPECT_THAT(html, HasSubstr(">" + number + "<"));
  EXPECT_THAT(html, AllOf(HasSubstr(">Loss<"), HasSubstr(">Samples a second<"),
                          HasSubstr(">Time of a step<"), HasSubstr(">The whole run<"),
                          HasSubstr(">Memory<"), HasSubstr(">CPU<")));
  EXPECT_THAT(html, HasSubstr("<code>data.batch_size</code></td><td>16</td><td>command line"));
  EXPECT_THAT(html, AllOf(HasSubstr("<dt>cpu</dt>"), HasSubstr("<dt>compiler</dt>")));
  EXPECT_THAT(html, HasSubstr("params hash: "));
  const size_t ran = html.find("<h3>Ran "), never = html.find("<h3>Never ran ");
  EXPECT_LT(ran, html.find("<li>fused_loss</li>"));
  EXPECT_LT(html.find("<li>fused_loss</li>"), never);
  EXPECT_LT(never, html.find("<li class=off>fused_bn_act</li>"));
  EXPECT_THAT(html, Not(HasSubstr(">fused_bn_act</li>\n</ul>\n<h3>Never")));
}

TEST_F(Report, OfARunWithoutAnEndSaysSo) {
  succeed(tiny({}));
  std::string rest = read("runs/run/metrics.jsonl");
  rest = rest.substr(0, rest.find("{", rest.find("\"test\"")));
  write("runs/run/metrics.jsonl", rest + "{\"ts\":17");  // killed while it wrote a row
  fs::remove(folder_ / "runs/run/end.json");
  const std::string html = page_of("runs/run", "runs/run/report.html");
  EXPECT_THAT(html,
              AllOf(HasSubstr("no end is recorded"), HasSubstr(">Loss<"), HasSubstr("<h3>On ")));
  for (const char* off : {"gradient_accumulation=1", "kernel_autotune=heuristic"})
    EXPECT_THAT(html, Not(HasSubstr(off)));
}

// A metric that the last rows lack: a list of one value per core, and a number.
TEST_F(Report, OfARunWhoseColumnsEndEarlyIsAPage) {
  succeed(tiny({}));
  std::string text;
  for (const std::string& split : {std::string("train"), std::string("test")})
    for (Json row : rows("runs/run", split)) {
      if (row["step"] == rows("runs/run", split).front()["step"])
        row["cpu_utilization_by_core"] = {0.5, 0.25}, row["gauge"] = 0.375;
      text += row.dump() + "\n";
    }
  write("runs/run/metrics.jsonl", text);
  const std::string html = page_of("runs/run", "runs/run/report.html");
  EXPECT_THAT(html, AllOf(HasSubstr("0.375"), Not(HasSubstr(">cpu_utilization_by_core</th>"))));
}

TEST_F(Report, OfARunWithoutAnUpdateIsAPage) {
  succeed(tiny({"train.epochs=0"}));
  EXPECT_THAT(page_of("runs/run", "runs/run/report.html"), HasSubstr("<h1>run</h1>"));
}

TEST_F(Report, ShowsHostileNamesAsText) {
  const std::string name = "<script>alert(1)<b>\"'&amp;";
  write("c.yaml", "name: '<script>alert(1)<b>\"''&amp;'\n");
  succeed(tiny({"--config", "c.yaml"}));
  const std::string html = page_of("runs/" + name, "runs/" + name + "/report.html");
  EXPECT_THAT(html, HasSubstr("<h1>&lt;script&gt;alert(1)&lt;b&gt;&quot;&#39;&amp;amp;</h1>"));
  EXPECT_THAT(html, Not(HasSubstr("<script>alert")));
}

TEST_F(Report, RefusesWhatIsNoReport) {
  expect_refusal({"report", "r.json", "--out", "r.json"}, 2, "the page is HTML; name a FILE.html");
  expect_refusal({"report", "nothing"}, 2, "nothing: no such run folder or file");
  expect_refusal({"report", "."}, 2, ".: not a run folder, it has no plan.yaml");
  write("a.json", "[1");
  expect_refusal({"report", "a.json"}, 3, "a.json: no JSON");
  write("a.json", "{\"x\": 1}");
  expect_refusal({"report", "a.json"}, 2, "a.json: not a report, it has no \"kind\"");
  write("a.json", "{\"kind\": 7}");
  expect_refusal({"report", "a.json"}, 2, "a.json: not a report");
  write("a.json", "{\"kind\": \"x\"}");
  expect_refusal({"report", "a.json"}, 2, "no page shows a report of the kind \"x\"");
  write("a.json", "{\"kind\": \"ab\", \"off\": 3}");
  expect_refusal({"report", "a.json"}, 3, "a.json: not a complete report of the kind \"ab\"");
  succeed(tiny({}));
  write("runs/run/metrics.jsonl", "{\"step\": 1}\nbroken\n{\"step\": 2}\n");
  expect_refusal({"report", "runs/run"}, 3,
                 "metrics.jsonl:2: not a row: no JSON at byte 1; the file is damaged");
  write("runs/run/env.json", "[]");
  expect_refusal({"report", "runs/run"}, 3, "env.json: not a JSON object");
}

// ---- reports of ab

TEST_F(Report, OfAbIsWrittenBesideItsMarkdownAndHasItsNumbers) {
  write("c.yaml",
        "name: c\nmodel: {name: layers, layers: [flatten, {name: linear, out: 10}]}\n"
        "data: {name: digits, train_size: 64, test_size: 20, batch_size: 16}\n");
  succeed({"ab", "--config", "c.yaml", "--toggle", "fused_optimizer", "--processes", "2",
           "--blocks", "2", "--steps", "3", "--warmup", "2", "--report", "x.md"});
  const std::string beside = read("x.html"), html = page_of("x.json", "x.html");
  expect_page(beside);
  const Json report = Json::parse(read("x.json")), &on = report["on"][0];
  const std::string ratio = cat(std::round(1000 * on["speedup"]["ratio"].get<double>()) / 1000);
  for (const std::string& page : {beside, html}) {
    EXPECT_THAT(page, AllOf(HasSubstr("fused_optimizer=off against fused_optimizer=on"),
                            HasSubstr(">" + ratio), HasSubstr(">placebo<"), HasSubstr("% interval"),
                            HasSubstr(">Speedup<"), HasSubstr(">Times<"), HasSubstr(">Loss<")));
    EXPECT_THAT(page, HasSubstr("<code>optim.fused_launches</code></td><td class=r>0<"));
    EXPECT_THAT(page, HasSubstr(escaped(report["command"].get<std::string>())));
    EXPECT_THAT(page, HasSubstr(sentence(on["losses"])));
    EXPECT_THAT(page, HasSubstr(sentence(on["evaluations"])));
  }
}

TEST(Page, OfAbShowsHostileNamesAsTextAndAFailureAsFailed) {
  const std::string html = html_of(ab_report("<img>"), "x");
  expect_page(html);
  EXPECT_THAT(html, Not(HasSubstr("<img")));
  EXPECT_THAT(html, AllOf(HasSubstr("1.500 ×"), HasSubstr("95 % interval 1.250 to 1.750"),
                          HasSubstr(">FAILED<"), HasSubstr("1.5 ms (1 to 2)")));
}

// ---- the registry, text and charts

static Page of_test(const Json& report) {
  return {"over", report.at("title"), "about", "<p>body</p>\n"};
}

TEST(Page, AKindIsAFileThatRegistersItself) {
  page_kinds()["test"] = of_test;
  const std::string html = html_of({{"kind", "test"}, {"title", "a<b"}}, "x");
  expect_page(html);
  EXPECT_THAT(html, AllOf(HasSubstr("<h1>a&lt;b</h1>"), HasSubstr("<p>body</p>")));
  EXPECT_EQ(refused([] { html_of({{"kind", "test"}}, "x.json"); }).exit, Exit::data);
  page_kinds().erase("test");
}

TEST(Page, EscapesWhatHtmlOrATerminalWouldObey) {
  EXPECT_EQ(escaped("<a href=\"x\">'&'"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;");
  EXPECT_EQ(escaped("\x1b\xff\xe2\x80\xae"), "\\x1b\\xff\\xe2\\x80\\xae");
  EXPECT_EQ(sentence("`x` is <b>"), "<code>x</code> is &lt;b&gt;");
}

TEST(Page, WritesNumbersShort) {
  for (const auto& [value, text] : {std::pair{0.0, "0"},
                                    {26315.3, "26.3k"},
                                    {0.0469, "0.0469"},
                                    {98.853, "98.85"},
                                    {1e-4, "1e-4"},
                                    {-2.5e-5, "-2.5e-5"},
                                    {1.25e6, "1.25M"},
                                    {9999.6, "10k"},
                                    {999'700, "1M"},
                                    {3e9, "3G"},
                                    {1.0, "1"}})
    EXPECT_EQ(short_number(value), text);
  EXPECT_EQ(short_number(NAN), "–");
  EXPECT_EQ(seconds_text(0.00068), "680 µs");
  EXPECT_EQ(seconds_text(3900), "1 h 05 min");
  EXPECT_EQ(bytes_text(5.1e6), "5.1 MB");
}

TEST(Scale, HasRoundTicks) {
  EXPECT_EQ(scale_around(0.3, 3.9, 4).ticks, (std::vector<double>{0, 1, 2, 3, 4}));
  EXPECT_EQ(scale_over(20, 940, 5).ticks, (std::vector<double>{200, 400, 600, 800}));
  const Scale log = log_scale(1e-3, 2);
  ASSERT_EQ(log.ticks.size(), 4u);
  EXPECT_NEAR(log.ticks[0], 1e-3, 1e-9);
  EXPECT_NEAR(log.at(0.1) - log.at(0.01), log.at(1) - log.at(0.1), 1e-9);
  for (const double same : {0.0, 5.0, -2.0}) {  // a constant has a scale, too
    EXPECT_GE(scale_around(same, same, 4).ticks.size(), 2u);
    EXPECT_GE(scale_over(same, same, 4).ticks.size(), 1u);
  }
  EXPECT_GE(log_scale(5, 5).ticks.size(), 1u);
}

TEST(Scale, HasFewTicksWhereValuesDifferInTheLastBitOnly) {
  for (const double low : {0.1, 5.0, 1e16, 1e300, -1e16}) {
    const double high = std::nextafter(low, INFINITY);
    for (const Scale& scale : {scale_around(low, high, 4), scale_over(low, high, 4),
                               scale_over(low, low, 4), log_scale(std::abs(low), std::abs(high))}) {
      EXPECT_GE(scale.ticks.size(), 1u) << low;
      EXPECT_LE(scale.ticks.size(), 7u) << low;
      EXPECT_TRUE(std::ranges::is_sorted(scale.ticks, std::ranges::less_equal()));
      EXPECT_TRUE(std::isfinite(scale.at(scale.ticks.front())));
    }
  }
}

static Series waves(int64_t count) {
  Series s{"<s>"};
  for (int64_t i = 0; i < count; ++i) s.x.push_back(double(i)), s.y.push_back(double(i % 7));
  return s;
}

TEST(Chart, OfManyPointsIsSmallAndKeepsTheirSpikes) {
  Series s = waves(1'000'000);
  s.y[777'777] = 123456;
  const std::string html = line_chart({.title = "<t>", .series = {s}});
  EXPECT_EQ(unbalanced(html), "");
  EXPECT_LT(html.size(), 30'000u);
  EXPECT_THAT(html,
              AllOf(HasSubstr("123460"), HasSubstr("<b>&lt;t&gt;</b>"), Not(HasSubstr("<s>"))));
}

// The parts have their spikes at different steps, so each alone would keep other points.
TEST(Chart, StacksPartsStepByStep) {
  Series low = waves(10'000), high = waves(10'000);
  low.name = "low", high.name = "high";
  low.y[1234] = 1000, high.y[5678] = 2000;
  const std::string html = line_chart(
      {.title = "t", .series = {low, high}, .y_axis = YAxis::from_zero, .stacked = true});
  EXPECT_EQ(unbalanced(html), "");
  EXPECT_THAT(html,
              AllOf(HasSubstr("L123.4 138.5"), HasSubstr("L567.9 69.26"), Not(HasSubstr("nan"))))
      << "1000 + 2 and 1 + 2000 of 3000, in 208 units";
}

TEST(Chart, LeavesOutWhatItCannotDraw) {
  Series s = waves(5);
  s.y = {1, NAN, -1, INFINITY, 3};
  const std::string html = line_chart({.title = "t", .series = {s}, .y_axis = YAxis::log});
  EXPECT_THAT(html, HasSubstr("[0.0,4.0],[1.0,3.0]"));
  EXPECT_THAT(html, AllOf(Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
  EXPECT_EQ(line_chart({.title = "t", .series = {waves(1)}}), "");
  EXPECT_EQ(line_chart({.title = "t"}), "");
  EXPECT_EQ(strip_chart("t", "", "ms", {}), "");
  EXPECT_EQ(share_bar("t", "", {{"a", 0, ""}}), "");
  EXPECT_EQ(unbalanced(ratio_chart("t", "", 1.01, {{"a", "", Tone::accent, 2, 0, INFINITY}})), "");
}
