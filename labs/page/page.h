// Report pages: one self-contained HTML file each, which requests nothing over the network. It
// holds the report as JSON and the script that shows it. A kind of report is a file KIND_page.js in
// this folder. Its first line names members without which a report of that kind is refused:
//
//   // needs plain placebo steps
//   pages.ladder = report => ({title, about, numbers, sections});
#pragma once
#include "core/base/file.h"
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

// Evaluates the checkpoint of a run again, for the part of its page that shows images. Returns null
// if the samples are not images with a class. Else an object:
//   samples, of  test images judged, at most 2,000 that are evenly spaced, and all of them
//   classes      names
//   pairs        [[label, answer, count], ...]
//   worst, last  [{label, guess, loss, jpeg}, ...]: those with the largest loss, the largest first,
//                and the first of the last batch; at most 8, in base64, of 64 pixels a side
// Throws Error if the run has no checkpoint, or its data cannot be read.
Json judge_test_images(const Path& run);

}  // namespace bellows
