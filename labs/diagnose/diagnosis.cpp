#include "labs/diagnose/diagnosis.h"
#include <fmt/format.h>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include "core/base/words.h"
#include "trainer/session/planted_load.h"
#include "trainer/state/run_record.h"
#include "trainer/verbs/tables.h"

namespace bellows {

static Json findings_of(const Evidence& e) {
  std::map<std::string, double> largest;  // largest saving by key
  std::vector<Json> found;
  for (const Rule& rule : diagnosis_rules()) {
    const std::optional<Fault> fault = rule.judge(e);
    if (!fault) continue;
    largest[rule.key] = std::max(largest[rule.key], fault->saves_s);
    found.push_back({{"rule", rule.name},
                     {"key", rule.key},
                     {"text", fault->text},
                     {"saves_s", fault->saves_s},
                     {"most_speedup", 1 / std::max(1 - e.share(fault->saves_s), 0.01)},
                     {"remedies", fault->remedies},
                     {"advice", fault->advice}});
  }
  std::ranges::stable_sort(found, std::greater(), [&](const Json& finding) {
    const std::string key = finding["key"];
    return std::tuple(largest[key], key, finding["saves_s"].get<double>());
  });
  return found;
}

// True if ops take longer than their start, so that they keep a device busy. A CPU starts an op at
// once, so there the work of an op decides: the limit is what a GPU of 10 TFLOP/s does in 2 us.
static bool large_ops(const Evidence& e) {
  constexpr double kFlopPerOp = 20e6;
  double flop = 0, calls = 0, planted_s = 0;
  for (const OpTime& op : e.ops) {
    flop += op.flop, calls += op.calls;
    if (op.name == "sim_compute") planted_s = op.s;
  }
  return e.on_gpu || planted_s > 0.5 * e.compute_s() || flop > kFlopPerOp * calls;
}

int class_of(const Evidence& e) {
  const bool large = e.compute_s() - e.between_ops_s > 0.7 * e.batch_s() && large_ops(e);
  // Loading is heavy if one worker takes half as long for a batch as computing does.
  const bool heavy = e.load_s > 0.5 * e.compute_s() || e.swing() > 0.25;
  return 1 + (heavy ? 1 : 0) + (large ? 2 : 0);
}

static constexpr std::pair<const char*, const char*> kClasses[] = {
    {"little computing and light loading", "any machine will do, so choose a cheap one"},
    {"little computing and heavy loading", "cores matter more than the device"},
    {"much computing and light loading", "the device is the limit"},
    {"much computing and heavy loading", "cores, disk and device may all be the limit"}};

static std::string in_ms(double seconds) { return fmt::format("{:.3f} ms", 1e3 * seconds); }
static std::string share(double part, const Evidence& e) {
  return fmt::format("{:.1f} %", 100 * e.share(part));
}

static const char* limit_of(const Evidence& e) {
  if (e.input_share() > 0.5) return "input";
  return e.input_share() > 0.1 ? "input and computing" : "computing";
}

static std::string text_of(const Json& finding) {
  std::string text = cat(plain(finding["rule"]), " (", plain(finding["key"]), ")");
  if (finding["saves_s"] > 0)
    text += fmt::format(", at most {:.2f} x", finding["most_speedup"].get<double>());
  text += "\n" + wrapped("   " + plain(finding["text"]), "   ");
  for (const Json& remedy : finding["remedies"]) text += "\n   try: " + plain(remedy);
  const std::string advice = finding["advice"];
  return advice.empty() ? text : text + "\n" + wrapped("   or: " + advice, "   ");
}

static std::string text_of(const Json& report, const Evidence& e) {
  std::string text = fmt::format("{}, {}, batch_cost {}\n", e.config.plan.name,
                                 count_of(e.updates, "update"), in_ms(e.batch_s()));
  text += fmt::format("  input      {:>12} {:>8}\n", in_ms(e.reader_s()), share(e.reader_s(), e));
  text += fmt::format("  computing  {:>12} {:>8}\n", in_ms(e.compute_s()), share(e.compute_s(), e));
  constexpr size_t kShown = 5;
  for (size_t i = 0; i < std::min(e.ops.size(), kShown); ++i)
    text += fmt::format("    {:<21} {:>8} {:>8}\n", e.ops[i].name, in_ms(e.ops[i].s),
                        share(e.ops[i].s, e));
  if (e.cpu_used >= 0)
    text += fmt::format(
        "  cores: {:.1f} of {} in use{}\n", e.cpu_used, e.cores,
        e.waited > 0.1 ? fmt::format("; ready threads lacked another {:.1f}", e.waited) : "");
  if (e.batch_bytes > 0)
    text += fmt::format("  batches: {:.1f} MB/s\n", 1e-6 * e.batch_bytes / e.batch_s());
  if (e.disk_bytes_per_s >= 0)
    text += fmt::format("  disks: {:.1f} MB/s\n", 1e-6 * e.disk_bytes_per_s);
  if (const std::string planted = report["planted_load"]; !planted.empty())
    text += wrapped("  " + planted, "    ") + "\n";
  std::string limit = "limit: " + plain(report["limit"]);
  if (report.contains("class"))
    limit += cat("; class ", plain(report["class"]), ", ", plain(report["class_name"]), ": ",
                 plain(report["class_advice"]));
  text += wrapped(limit, "") + "\n";
  if (!report["untried"].empty())
    text += wrapped("off, and able to run here: " + plain(report["untried"]), "  ") + "\n";
  const Json& findings = report["findings"];
  if (findings.empty()) return text + "findings: none\n";
  text += "findings, the largest possible gain first:\n";
  for (size_t i = 0; i < findings.size(); ++i)
    text += fmt::format("{}. {}\n", i + 1, text_of(findings[i]));
  return text;
}

Json diagnose(const Evidence& e) {
  Json report = {{"kind", "diagnose"},
                 {"name", e.config.plan.name},
                 {"measured_here", e.measured},
                 {"updates", e.updates},
                 {"batch_cost", e.batch_s()},
                 {"reader_cost", e.reader_s()},
                 {"compute_share_deviation", e.swing()},
                 {"eval_share", e.eval_share},
                 {"save_share", e.save_share},
                 {"cores", e.cores},
                 {"cores_used", e.cpu_used},
                 {"waited_for_a_core", e.waited},
                 {"others", e.others},
                 {"between_ops_s", e.between_ops_s},
                 {"load_s", e.load_s},
                 {"batch_bytes", e.batch_bytes},
                 {"disk_bytes_per_s", e.disk_bytes_per_s},
                 {"planted_load", planted_load(e.config.plan)},
                 {"limit", limit_of(e)},
                 {"untried", untried(e)},
                 {"ops", Json::array()},
                 {"findings", findings_of(e)}};
  for (const OpTime& op : e.ops)
    report["ops"].push_back({{"op", op.name}, {"s", op.s}, {"flop", op.flop}});
  if (!e.ops.empty()) {
    const int number = class_of(e);
    const auto& [name, advice] = kClasses[number - 1];
    report.update({{"class", number}, {"class_name", name}, {"class_advice", advice}});
  }
  report["text"] = text_of(report, e);
  return report;
}

}  // namespace bellows
