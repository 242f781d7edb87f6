#include "labs/page/page.h"
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include "core/base/check.h"
#include "core/base/utf8.h"
#include "core/base/words.h"
#include "trainer/ab/arm_report.h"

namespace bellows {

// Style and scripts of this folder, by file name.
static const std::map<std::string, std::string> kFiles = {
#include <page_files.inc>
};
constexpr std::string_view kPage = "_page.js";

static std::string replaced(const std::string& text, const std::map<char, std::string>& by) {
  std::string out;
  for (const char c : text) out += by.contains(c) ? by.at(c) : std::string(1, c);
  return out;
}

std::string escaped(std::string_view text) {
  return replaced(printable(text, Newlines::keep),
                  {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}});
}

std::string page_of(std::vector<Json> reports, const std::string& kind) {
  std::string plain_text;
  for (Json& report : reports) {
    if (const Json text = report.value("text", Json()); text.is_string())
      plain_text += text.get<std::string>();
    report.erase("text");
  }
  const Json embedded = reports.size() == 1 ? reports[0] : Json(reports);
  return cat(
      "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n",
      "<meta name=viewport content=\"width=device-width,initial-scale=1\">\n<title>Bellows · ",
      kind, "</title>\n<link rel=icon href=\"data:,\">\n<style>", kFiles.at("page.css"),
      "</style>\n</head>\n<body>\n<main><noscript><pre>", escaped(plain_text),
      "</pre></noscript></main>\n", "<script type=application/json id=report>",
      replaced(to_line(embedded), {{'<', "\\u003c"}}), "</script>\n<script>",
      kFiles.at("elements.js"), kFiles.at("charts.js"), kFiles.at("arms.js"),
      kFiles.at(kind + std::string(kPage)), kFiles.at("page.js"), "</script>\n</body>\n</html>\n");
}

static Names kinds() {
  Names known;
  for (const auto& [file, text] : kFiles)
    if (file.ends_with(kPage)) known.push_back(file.substr(0, file.size() - kPage.size()));
  return known;
}

std::string page_kind(const Json& report, const std::string& name) {
  const Json named = report.is_object() ? report.value("kind", Json()) : Json();
  const std::string kind = named.is_string() ? named : Json("");
  const auto page = kFiles.find(kind + std::string(kPage));
  CHECK(page != kFiles.end(), name, ": ",
        kind.empty() ? std::string("not a report, it has no \"kind\"")
                     : cat("no page shows a report of the kind \"", kind, "\""),
        "; there are pages for ", joined(kinds()));
  std::istringstream head(page->second.substr(0, page->second.find('\n')));
  std::string member;
  for (head >> member >> member; head >> member;)  // skips "//" and "needs"
    if (!report.contains(member))
      fail(Exit::data, name, ": not a complete report of the kind \"", kind, "\": it has no \"",
           member, "\"");
  return kind;
}

static std::string html_of(const Json& report, const std::string& name) {
  return page_of({report}, page_kind(report, name));
}

static const AddPageWriter page_of_each_report(html_of);

}  // namespace bellows
