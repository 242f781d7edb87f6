// Checks of the pages of `trainer report`.
#pragma once
#include <gtest/gtest.h>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include "core/base/check.h"
#include "core/base/json.h"
#include "tests/place.h"
#include "tests/trainer/program.h"

namespace bellows {

// Expects a page that requests nothing, in which no text of the report begins a tag.
inline void expect_page(const std::string& html) {
  EXPECT_TRUE(html.starts_with("<!doctype html>\n<html lang=en>"));
  EXPECT_TRUE(html.ends_with("</script>\n</body>\n</html>\n"));
  EXPECT_LT(html.size(), 500'000u);
  for (const char* outside : {"http", "url(", "@import", "fetch(", "XMLHttp", "import("})
    EXPECT_EQ(html.find(outside), html.npos) << outside;
  const std::string image = "src=\"data:image/jpeg;base64,";  // all that a page may load
  for (size_t at = html.find("src="); at != html.npos; at = html.find("src=", at + 1))
    EXPECT_EQ(html.substr(at, image.size()), image);
  size_t scripts = 0;
  for (size_t at = html.find("<script"); at != html.npos; at = html.find("<script", at + 1))
    ++scripts;
  EXPECT_EQ(scripts, 2u) << "the report, and the script that shows it";
}

// Returns the report that a page holds.
inline Json report_in(const std::string& html) {
  const std::string begin = "id=report>";
  const size_t at = html.find(begin) + begin.size();
  const std::string json = html.substr(at, html.find("</script>", at) - at);
  EXPECT_EQ(json.find('<'), json.npos);
  return Json::parse(json);
}

// A page is rendered with node, where there is one.
class Pages : public Program {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(source_dir() + "/tests/labs/page_test.js") ||
        std::system("node --version > /dev/null 2>&1") != 0)
      GTEST_SKIP() << "no sources or no node";
  }
  // Returns the body of a page, once page_test.js has found nothing wrong with it.
  std::string body_of(const std::string& page) const {
    expect_page(read(page));
    write("page.html", read(page));
    const std::string in_folder = cat("cd '", folder_.string(), "' && node ", source_dir());
    const int status =
        std::system(cat(in_folder, "/tests/labs/page_test.js page.html > body 2> wrong").c_str());
    EXPECT_EQ(status, 0) << page << ": " << read("wrong");
    return read("body");
  }
  // The same for the page of a report.
  std::string body_of_report(const Json& report) {
    write("x.json", to_line(report));
    EXPECT_EQ(succeed({"report", "x.json"}), "page: x.html\n");
    return body_of("x.html");
  }
};

}  // namespace bellows
