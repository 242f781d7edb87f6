// Pieces of HTML: escaped text, numbers as people read them, tables.
#pragma once
#include <string_view>
#include <utility>
#include <vector>
#include "core/base/json.h"

namespace bellows {

// Escapes text from outside for HTML and for quoted attributes. Bytes that printable() escapes
// become visible, too.
std::string escaped(std::string_view text);
// The same for a sentence of a report: begins with a capital, and `x` becomes code.
std::string sentence(std::string text);

std::string short_number(double value);    // "26.3k", "0.0469", "1.2M"; "–" if not finite
std::string bytes_text(double bytes);      // "5.1 MB"
std::string seconds_text(double seconds);  // "0.68 ms", "4.2 s", "1 h 05 min"
std::string percent_text(double share);    // 0.9885 is "98.85 %"
std::string code(std::string_view text);   // escaped, as code

// Cells are HTML, so escape text. `sides`: 'l' or 'r' per column, as in trainer/verbs/tables.h.
// A click on a column's title sorts the rows.
struct HtmlTable {
  std::vector<std::string> columns;
  std::string_view sides;
  std::vector<std::vector<std::string>> rows = {};
};
std::string html_of(const HtmlTable& table);

// A list of names and values, in two columns if there is room. Values are HTML.
std::string facts(const std::vector<std::pair<std::string, std::string>>& rows);

// The same for a flat JSON object, whose objects are merged into it; strings are escaped.
std::string facts_of(const Json& object);

// One large number with its name above and a note below, for the row that begins a page.
struct KeyNumber {
  std::string name, value, note = {};
};
std::string key_numbers(const std::vector<KeyNumber>& numbers);

// Chips below a small title, pale if they are `off`; "" without names. All are plain text.
std::string names_list(const std::string& title, const std::string& note,
                       const std::vector<std::string>& names, bool off = false);

std::string section(const std::string& title, const std::string& body);  // "" without a body
std::string grid(const std::string& figures);                            // side by side, or ""
std::string fold(const std::string& title, const std::string& body);     // closed at first

}  // namespace bellows
