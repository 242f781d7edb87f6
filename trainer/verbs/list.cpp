// trainer list: prints the registries.
#include <algorithm>
#include "core/base/output.h"
#include "core/base/words.h"
#include "core/config/hint.h"
#include "trainer/verbs/tables.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

static int run_list(CommandLine& line, const Arguments& args) {
  std::string name;
  bool markdown = false;
  Names names;
  for (const Table& table : tables()) names.emplace_back(table.name);
  line.add_option("what", name, "one of: " + joined(names) + " (default: all of them)");
  line.add_flag("--markdown", markdown, "print Markdown tables");
  if (!line.read(args)) return 0;
  const auto print = [&](const Table& table) {
    say_part(markdown ? as_markdown(table) : as_text(table));
  };
  if (!name.empty()) {
    const auto at = std::ranges::find(names, name);
    CHECK(at != names.end(), "unknown list '", name, "', the nearest one is '",
          nearest(name, names), "'; trainer list  prints all");
    print(tables()[at - names.begin()]);
    return 0;
  }
  for (const Table& table : tables()) {
    say_part(cat(markdown ? "### " : "", table.name, markdown ? "\n\n" : ":\n"));
    print(table);
    say("");
  }
  return 0;
}

static const AddVerb list_verb({"list",
                                "lists the toggles, models, layers, data sets, ops and so on",
                                "trainer list toggles --markdown", run_list, "learn"});

}  // namespace bellows
