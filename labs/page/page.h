// Report pages: one self-contained HTML file each, which requests nothing over the network. It
// holds the report as JSON and the script that shows it. A kind of report is a file KIND_page.js in
// this folder. Its first line names members without which a report of that kind is refused:
//
//   // needs plain placebo steps
//   pages.ladder = report => ({title, about, numbers, sections});
#pragma once
#include "core/base/json.h"

namespace bellows {

// Escapes text for HTML and for quoted attributes. Bytes that printable() escapes become visible.
std::string escaped(std::string_view text);

// Returns the page of a report. Without scripts it shows the report's "text". Throws Error if no
// page shows the report's kind (exit 2) or it is incomplete (exit 3); `name` of its file begins the
// message.
std::string html_of(const Json& report, const std::string& name);

}  // namespace bellows
