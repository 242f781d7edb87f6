// Report pages: one self-contained HTML file each, that requests nothing over the network. A kind
// of report is a file in this folder that registers itself by the "kind" of its JSON:
//
//   static Page ladder_page(const Json& report) { ... }
//   static const AddPage ladder_page_entry("ladder", ladder_page);
#pragma once
#include <map>
#include "core/base/json.h"
#include "core/base/registry.h"

namespace bellows {

struct Page {
  std::string over, title, about;  // line above the title, title, line below: plain text
  std::string body;                // HTML, made of html.h and charts.h
};

// Throws Json::exception if the report lacks something.
using MakePage = Page (*)(const Json& report);
inline std::map<std::string, MakePage>& page_kinds() {
  static std::map<std::string, MakePage> all;
  return all;
}
struct AddPage {
  AddPage(const char* kind, MakePage make, const char* file = __builtin_FILE()) {
    note_registration(file);
    page_kinds()[kind] = make;
  }
};

// Returns the HTML of a report. Throws Error (exit 2) if its kind has no page or it is incomplete;
// `name` of its file begins the message.
std::string html_of(const Json& report, const std::string& name);

}  // namespace bellows
