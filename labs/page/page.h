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

// Returns the kind of a report. Throws Error if no page shows it (exit 2) or if the report is
// incomplete (exit 3); `name` of its file begins the message.
std::string page_kind(const Json& report, const std::string& name);
// Returns the page of reports of one page_kind(). Without scripts the page shows their "text".
// Several reports are one above the other, each below its "label", unless `several` in the kind's
// script makes one page of them.
std::string page_of(std::vector<Json> reports, const std::string& kind);

}  // namespace bellows
