// trainer explain NAME: a toggle (by any name that it is known under), an op, an option, an entry.
#include <algorithm>
#include "ops/einsum.h"
#include "ops/op.h"
#include "toggles/hint.h"
#include "toggles/toggle.h"
#include "trainer/output.h"
#include "trainer/tables.h"
#include "trainer/verbs.h"

namespace bellows {

static std::string joined(const Names& names, const char* none = "none") {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? none : text;
}

// "cuda"; of one value only: "bf16, for the value bf16".
static std::string text_of_need(const std::string& need) {
  const size_t is = need.find('=');
  if (is == std::string::npos) return need;
  return cat(need.substr(is + 1), ", for the value ", need.substr(0, is));
}

static void explain_toggle(const Toggle& t) {
  say(cat("toggle ", t.name, " (", t.key_point, ")"));
  if (!t.aka.empty()) say("  also known as: " + joined(t.aka));
  say(cat("  idea:      ", t.idea));
  say(cat("  claim:     ", t.claim));
  say(cat("  hurts:     ", t.hurts));
  say(cat("  sources:   ", t.sources));
  say(cat("  footprint: ", t.footprint, " moves when, and only when, it runs"));
  say(cat("  same loss: ", name_of(t.same),
          t.same == Same::close ? cat(", within ", t.tolerance) : "",
          *t.statistical_where ? cat("; statistical where ", t.statistical_where, " moves") : ""));
  say(cat("  values:    ", joined(t.values), t.numbers ? " or a whole number" : "", "; default ",
          t.by_default, ", under `toggles: all` ", *t.fast ? t.fast : t.by_default));
  for (const std::string& need : t.needs) say("  needs:     " + text_of_need(need));
  if (const std::string why = no_effect(t); !why.empty()) say("  here:      " + why);
  for (const auto& [option, owner] : option_owners())
    if (owner->name == std::string_view(t.name)) say("  sets:      " + option);
  say(cat("  measure:   trainer ab --toggle ", t.name, " --config configs/lenet.yaml"));
}

static bool explain_op(const std::string& name) {
  bool found = false;
  for (const OpSpec& op : op_specs()) {
    if (op.name != name) continue;
    say(cat("op ", op.name, *op.variant ? ", " : "", op.variant, ": ", op.math));
    if (op.composed) say("  fused; it carries its twin, composed of simpler ops");
    found = true;
  }
  return found;
}

static bool explain_entry(const std::string& name) {
  bool found = false;
  for (const Table& table : tables()) {
    if (table.name == std::string_view("ops") || table.name == std::string_view("toggles"))
      continue;
    for (const TableRow& row : table.rows()) {
      if (row[0] != name) continue;
      say(cat(table.name, ": ", name, ": ", row[1]));
      found = true;
    }
  }
  return found;
}

namespace {
// Says what an option is for.
class ExplainOption : public Dump {
 public:
  explicit ExplainOption(const std::string& key) : wanted_(key) {}
  bool found = false;

 protected:
  void option(const std::string& key, const Option& option, const char* help) override {
    values[key] = {option.text};
    if (key != wanted_) return;
    found = true;
    say(cat("option ", key, ": ", help, "; ", option.accepts, ", default ", option.text));
  }

 private:
  std::string wanted_;
};
}  // namespace

static bool explain_option(const std::string& key) {
  ExplainOption visitor(key);
  Plan plan;
  visit(visitor, plan);
  const auto owners = option_owners();
  if (visitor.found && owners.contains(key))
    say(cat("  set through its toggle:  toggles: {", owners.at(key)->name, ": ...}"));
  return visitor.found;
}

static Names all_names() {
  Names names;
  for (const Table& table : tables())
    for (const TableRow& row : table.rows()) names.push_back(row[0]);
  for (const auto& [key, value] : dump(Plan{})) names.push_back(key);
  return names;
}

static int run(const Arguments& args) {
  CommandLine line("explain");
  std::string name, expression;
  line.add_option("name", name, "a toggle, an op, an option, a model, ...")->required();
  line.add_option("expression", expression, "of einsum: its loop nest is printed");
  if (!line.read(args)) return 0;
  CHECK(expression.empty() || name == "einsum", "explain: only einsum takes an expression");
  if (!expression.empty()) {
    say_part(explain_einsum(expression));
    return 0;
  }
  const Toggle* const toggle = find_toggle(name);
  if (toggle) explain_toggle(*toggle);
  const bool op = explain_op(name), option = explain_option(name), entry = explain_entry(name);
  CHECK(toggle || op || option || entry, "nothing is called '", name, "', the nearest name is '",
        nearest(name, all_names()), "'; trainer list  shows all");
  return 0;
}

static const AddVerb verb({"explain", "what a toggle, an op or an option does, and when it hurts",
                           "trainer explain einsum 'ij,jk->ki'", run});

}  // namespace bellows
