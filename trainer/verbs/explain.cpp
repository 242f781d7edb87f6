// trainer explain NAME: a toggle (by any of its names), an op, an option, an entry, a topic or a
// counter.
#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include "core/base/output.h"
#include "core/base/trace.h"
#include "core/base/words.h"
#include "core/config/hint.h"
#include "core/config/removed.h"
#include "ops/base/op.h"
#include "ops/matmul/einsum.h"
#include "plan/toggle.h"
#include "trainer/verbs/tables.h"
#include "trainer/verbs/topics.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

// Returns "cuda" for "cuda", and "bf16, if the value is bf16" for "bf16=bf16".
static std::string describe_need(const std::string& need) {
  const size_t is = need.find('=');
  if (is == std::string::npos) return need;
  return cat(need.substr(is + 1), ", if the value is ", need.substr(0, is));
}

// docs/seeds.md, a row for each statement: "| S1:37 | text | shown by | source | ours | holds |".
constexpr std::string_view kSources =
#include <seeds.md.inc>
    ;

// docs/results.md, whose gallery has a row for each toggle, as tools/gallery.py writes it.
constexpr std::string_view kResults =
#include <results.md.inc>
    ;

// Returns the cells of the first row in `document` that begins so; nothing if there is none.
static Names cells_of(std::string_view document, const std::string& begin) {
  const size_t at = document.find("\n| " + begin);
  if (at == document.npos) return {};
  std::string_view row = document.substr(at + 3, document.find(" |\n", at) - at - 3);
  Names cells;
  for (size_t bar = 0; bar != row.npos;) {
    bar = row.find(" | ");
    cells.emplace_back(row.substr(0, bar));
    std::erase(cells.back(), '\\');  // of a bar inside the cell
    if (bar != row.npos) row.remove_prefix(bar + 3);
  }
  return cells;
}

// Returns the row of the gallery about a toggle, "" if it has not been measured: "amp=bf16 faster:
// 1.476 x (1.231 to 1.769), placebo 1.002; where it does not gain, ...".
static std::string find_result(const Toggle& t) {
  Names cells = cells_of(kResults, cat("`", t.name, "="));  // gains, no gain, machine, commit, date
  if (cells.empty()) return "";
  for (std::string& cell : cells) std::erase(cell, '`');
  const char* const elsewhere =
      t.no_gain.empty() ? "; in time, " : "; where it has little to gain, ";
  return cat(cells[0], " ", cells[1], elsewhere, cells[2], "; ", cells[3], ", ", cells[5]);
}

static std::string statement(const std::string& number) {
  const Names cells = cells_of(kSources, number + " | ");
  return cells.empty() ? "" : cat(number, " ", cells[1]);
}

// Splits "S0:12,13 S1:27" into "S0:12", "S0:13", "S1:27". Skips words without a colon.
static Names split_statements(const std::string& sources) {
  Names numbers;
  std::istringstream words(sources);
  for (std::string word; words >> word;) {
    const size_t colon = word.find(':');
    if (colon == std::string::npos) continue;
    std::istringstream list(word.substr(colon + 1));
    for (std::string number; std::getline(list, number, ',');)
      numbers.push_back(word.substr(0, colon + 1) + number);
  }
  return numbers;
}

// Prints "  claim:     text" in 80 columns. An empty text prints nothing.
static void say_row(const std::string& label, const std::string& text) {
  if (text.empty()) return;
  std::string line = cat("  ", label, ":");
  line.resize(std::max<size_t>(line.size() + 1, 13), ' ');
  say_wrapped(line + text, std::string(13, ' '));
}

static void say_lessons(const std::string& name) {
  for (const Table& table : tables()) {
    if (table.columns.back() != "shows") continue;
    for (const TableRow& row : table.rows())
      if (cat(", ", row.back(), ",").find(cat(", ", name, ",")) != std::string::npos)
        say_row("lesson", cat("trainer lesson ", row[0]));
  }
}

static bool explain_statement(const std::string& number) {
  const Names cells = cells_of(kSources, number + " | ");
  if (cells.empty()) return false;
  say_wrapped(statement(number));
  static constexpr const char* kLabels[] = {"shown by", "source", "ours", "holds"};
  for (size_t i = 0; i < std::size(kLabels); ++i) say_row(kLabels[i], cells.at(i + 2));
  Names of;
  for (const Toggle& t : toggles())
    if (std::ranges::count(split_statements(t.sources), number)) of.push_back(t.name);
  if (!of.empty()) say("  toggles: " + joined(of));
  say_lessons(number);
  return true;
}

static std::string describe_promise(const Toggle& t) {
  return cat(
      name_of(t.same), t.same == Same::close ? cat(", within ", t.tolerance) : "",
      *t.statistical_where ? cat("; statistical where ", t.statistical_where, " increments") : "",
      *t.close_where ? cat("; close where ", t.close_where, " increments") : "");
}

static void explain_toggle(const Toggle& t) {
  say(cat("toggle ", t.name, " (", t.key_point, ")"));
  say_row("also known as", joined(t.aliases));
  say_row("elsewhere", t.elsewhere);
  const std::string result = find_result(t);
  if (std::ranges::count(t.needs, "cuda") && result.empty())
    say_row("status", "experimental: it needs a GPU, and no measurement shows yet that it helps");
  say_row("idea", t.idea);
  say_row("claim", t.claim);
  say_row("cost", t.cost);
  for (const std::string& number : split_statements(t.sources))
    say_row("source", statement(number));
  say_row("card", t.file);
  say_row("code", t.code);
  say_row("footprint", cat(t.footprint, " (0 when off)"));
  say_row("counted", list_places(t.footprint));
  say_row("same loss", describe_promise(t));
  int64_t number = 0;
  const std::string numbers = t.numbers ? " or " + make_option(number, *t.numbers).accepts : "";
  say_row("values", cat(joined(t.values), numbers, "; default ", t.default_value,
                        ", under `toggles: all` ", *t.fast ? t.fast : t.default_value));
  for (const std::string& need : t.needs) say_row("needs", describe_need(need));
  say_row("here", no_effect(t));
  for (const auto& [option, owner] : option_owners())
    if (owner->name == t.name) say_row("sets", option);
  // In one line, so that they can be copied.
  const std::string ab =
      cat("trainer ", std::ranges::count(t.needs, "ranks") ? "launch --ranks 2 -- " : "",
          "ab --toggle ", t.name, " --config ");
  say(cat("  measure:   ", ab, t.measure));
  if (!t.no_gain.empty()) say(cat("  no gain:   ", ab, t.no_gain));
  if (t.gains != std::string("time")) say_row("gains", cat("less ", t.gains));
  say_row("measured", result);
  say_lessons(t.name);
}

static std::vector<Listing::Line> list_options(const Table& table, const std::string& entry) {
  Listing options(true);
  if (table.visit) table.visit(options, entry);
  return options.lines;
}

// Returns the implementation of the op that runs on this CPU: "brgconv:avx512_core", or "plain".
static std::string implementation_here(const OpSpec& op) {
  const Kernels use(make_config({}).plan.kernels);
  const Inputs inputs =
      make_inputs(op, (op.large.empty() ? op.cases : op.large).back(), DType::f32);
  trace::kernels_logged = true;
  op.run(inputs);
  trace::kernels_logged = false;
  Names names;
  for (const trace::KernelRun& run : trace::take_kernels()) names.push_back(run.name);
  return names.empty() ? "plain" : joined(names);
}

// Prints one block per formula: variants of an op differ in their options.
static bool explain_op(const std::string& name) {
  struct Block {
    Names variants;
    std::set<std::string> implementations;
  };
  std::map<std::string, Block> blocks;
  for (const OpSpec& op : op_specs()) {
    if (op.name != name) continue;
    Block& block = blocks[cat("op ", op.name, ": ", op.math,
                              op.composed ? "; fused, with a twin composed of simpler ops" : "")];
    if (*op.variant) block.variants.push_back(op.variant);
    block.implementations.insert(implementation_here(op));
  }
  for (const auto& [line, block] : blocks) {
    say(line);
    if (!block.variants.empty()) say("  proved for: " + joined(block.variants));
    say("  on this CPU: " + joined({block.implementations.begin(), block.implementations.end()}));
  }
  return !blocks.empty();
}

static bool explain_entry(const std::string& name) {
  bool found = false;
  for (const Table& table : tables()) {
    if (table.has_cards) continue;
    for (const TableRow& row : table.rows()) {
      if (row[0] != name) continue;
      say(cat(table.name, ": ", name, ": ", row[1]));
      for (const Listing::Line& line : list_options(table, name))
        say_wrapped(cat("  ", line.key, " = ", line.described()), "    ");
      found = true;
    }
  }
  return found;
}

// Explains an option of every run, or all options below the prefix `key`.
static bool explain_option(const std::string& key) {
  Listing all(true);
  Plan plan = make_config({}).plan;  // the defaults, toggles included
  visit(all, plan);
  const Owners& owners = option_owners();
  bool found = false;
  for (const Listing::Line& line : all.lines) {
    if (line.key != key && !line.key.starts_with(key + ".")) continue;
    const auto owner = owners.find(line.key);
    const std::string by =
        owner == owners.end() ? "" : cat("; set by  toggles: {", owner->second->name, ": ...}");
    say_wrapped(cat("option ", line.key, " = ", line.described(), by));
    found = true;
  }
  return found;
}

// Explains an option that only some entries have: "model.width", or "width".
static bool explain_entry_option(const std::string& key) {
  bool found = false;
  for (const Table& table : tables())
    for (const TableRow& row : table.rows())
      for (const Listing::Line& line : list_options(table, row[0])) {
        if (line.key != key && !key.ends_with("." + line.key)) continue;
        say_wrapped(
            cat("option of ", table.name, ": ", row[0], ": ", line.key, " = ", line.described()));
        found = true;
      }
  return found;
}

static Names all_names() {
  Names names;
  for (const Topic& topic : topics())
    names.insert(names.end(), topic.others.begin(), topic.others.end());
  for (const Table& table : tables())
    for (const TableRow& row : table.rows()) names.push_back(row[0]);
  for (const auto& [key, value] : dump(Plan{})) {
    for (size_t dot = key.find('.'); dot != key.npos; dot = key.find('.', dot + 1))
      names.push_back(key.substr(0, dot));  // sections
    names.push_back(key);
  }
  return names;
}

// Returns our name for `name`, which may differ in case or be another tool's name.
static std::string known_name(const std::string& name) {
  Names names = all_names();
  for (const Toggle& toggle : toggles())
    names.insert(names.end(), toggle.aliases.begin(), toggle.aliases.end());
  if (std::ranges::count(names, name)) return name;
  const auto same = std::ranges::find(names, folded(name), folded);
  if (same != names.end()) return *same;
  const auto is_called_so = [&](const auto& option) {
    return std::ranges::count(option.second.elsewhere, folded(name), folded) > 0;
  };
  const MarksByKey plan = marks_of(Plan{});
  if (const auto ours = std::ranges::find_if(plan, is_called_so); ours != plan.end()) {
    say(cat(name, " is called ", ours->first, " here"));
    return ours->first;
  }
  for (const Table& table : tables())
    for (const TableRow& row : table.rows()) {
      Listing options(true);
      if (table.visit) table.visit(options, row[0]);
      const auto ours = std::ranges::find_if(options.marks(), is_called_so);
      if (ours != options.marks().end()) return ours->first;
    }
  return name;
}

static int run_explain(CommandLine& line, const Arguments& args) {
  std::string name, expression;
  line.add_option("name", name, "a toggle, an op, an option, a model, a topic, a counter and so on")
      .required();
  line.add_option("expression", expression, "an expression of einsum, whose loops are printed");
  if (!line.read(args)) return 0;
  CHECK(expression.empty() || name == "einsum", "explain: only einsum takes an expression");
  if (!expression.empty()) return say_part(explain_einsum(expression)), 0;
  if (explain_statement(name)) return 0;
  if (name.starts_with("toggles.")) name = name.substr(8);
  name = known_name(name);
  const Toggle* const toggle = find_toggle(name);
  if (toggle) explain_toggle(*toggle);
  bool found = toggle != nullptr;
  found |= explain_op(name);
  found |= explain_topic(name);
  found |= explain_entry(name);
  found |= explain_option(name);
  if (found || explain_entry_option(name)) return 0;
  const std::string gone = removal(name), near = nearest(name, all_names());
  CHECK(gone.empty(), "nothing is called '", name, "': ", gone);
  fail(Exit::usage, "nothing is called '", name, "'",
       is_like(name, near) ? cat(", the nearest name is '", near, "'") : "",
       "; trainer list  and  trainer --print-config  list the names");
}

static const AddVerb explain_verb({"explain",
                                   "explains a toggle, an op, an option, a topic or a counter",
                                   "trainer explain einsum 'ij,jk->ki'", run_explain, "learn"});

}  // namespace bellows
