#include "labs/page/page.h"
#include <nlohmann/json.hpp>
#include "core/base/check.h"
#include "core/base/words.h"
#include "labs/page/html.h"
#include "trainer/ab/arm_report.h"

namespace bellows {

constexpr std::string_view kStyle =
#include <page.css.inc>
    ;
constexpr std::string_view kScript =
#include <page.js.inc>
    ;

static std::string document(const Page& page) {
  return cat("<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n",
             "<meta name=viewport content=\"width=device-width,initial-scale=1\">\n<title>",
             escaped(page.title), "</title>\n<link rel=icon href=\"data:,\">\n<style>", kStyle,
             "</style>\n</head>\n<body>\n<main>\n<header>\n<p class=over>", escaped(page.over),
             "</p>\n<h1>", escaped(page.title), "</h1>\n<p class=about>", escaped(page.about),
             "</p>\n</header>\n", page.body, "</main>\n<script>", kScript,
             "</script>\n</body>\n</html>\n");
}

std::string html_of(const Json& report, const std::string& name) {
  const Json named = report.is_object() ? report.value("kind", Json()) : Json();
  const std::string kind = named.is_string() ? named : Json("");
  Names known;
  for (const auto& [each, page] : page_kinds()) known.push_back(each);
  const auto found = page_kinds().find(kind);
  CHECK(found != page_kinds().end(), name, ": ",
        kind.empty() ? std::string("not a report, it has no \"kind\"")
                     : cat("no page shows a report of the kind \"", kind, "\""),
        "; there are pages for ", joined(known));
  try {
    return document(found->second(report));
  } catch (const Json::exception& error) {
    fail(Exit::data, name, ": not a complete report of the kind \"", kind, "\": ", error.what());
  }
}

static const AddPageWriter page_of_each_report(html_of);

}  // namespace bellows
