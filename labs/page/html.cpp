#include "labs/page/html.h"
#include <fmt/format.h>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include "core/base/utf8.h"
#include "trainer/state/run_record.h"

namespace bellows {

std::string escaped(std::string_view text) {
  static const std::map<char, std::string> entities = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  std::string out;
  for (const char c : printable(text, Newlines::keep)) {
    const auto entity = entities.find(c);
    out += entity == entities.end() ? std::string(1, c) : entity->second;
  }
  return out;
}

std::string sentence(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  std::string html;
  bool code = false;
  for (const char c : escaped(text))
    if (c == '`')
      html += code ? "</code>" : "<code>", code = !code;
    else
      html += c;
  return html + (code ? "</code>" : "");
}

// ---- numbers

std::string short_number(double value) {
  if (!std::isfinite(value)) return "–";
  const double size = std::abs(value);
  if (size > 0 && size < 1e-3) {
    const double power = std::floor(std::log10(size) + 1e-9);
    return fmt::format("{:.3g}e{:.0f}", value / std::pow(10, power), power);
  }
  // Where three digits would round up to the next unit, that unit is taken.
  if (size >= 999.5e6) return fmt::format("{:.3g}G", value * 1e-9);
  if (size >= 999.5e3) return fmt::format("{:.3g}M", value * 1e-6);
  if (size >= 9999.5) return fmt::format("{:.3g}k", value * 1e-3);
  return size >= 10 ? fmt::format("{:.4g}", value) : fmt::format("{:.3g}", value);
}

std::string bytes_text(double bytes) {
  if (!std::isfinite(bytes)) return "–";
  return bytes >= 1e9 ? fmt::format("{:.2f} GB", bytes * 1e-9)
                      : fmt::format("{:.1f} MB", bytes * 1e-6);
}

std::string seconds_text(double seconds) {
  if (!std::isfinite(seconds)) return "–";
  if (seconds < 1e-3) return fmt::format("{:.3g} µs", 1e6 * seconds);
  if (seconds < 1) return fmt::format("{:.3g} ms", 1e3 * seconds);
  if (seconds < 120) return fmt::format("{:.3g} s", seconds);
  const int minutes = static_cast<int>(std::lround(seconds / 60));
  return minutes < 60 ? fmt::format("{} min", minutes)
                      : fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

std::string percent_text(double share) {
  return std::isfinite(share) ? fmt::format("{:.2f} %", 100 * share) : "–";
}

// ---- elements

std::string code(std::string_view text) { return "<code>" + escaped(text) + "</code>"; }

static const char* side_of(std::string_view sides, size_t column) {
  return column < sides.size() && sides[column] == 'r' ? " class=r" : "";
}

std::string html_of(const HtmlTable& table) {
  std::string html = "<div class=wide><table><thead><tr>";
  for (size_t c = 0; c < table.columns.size(); ++c)
    html += fmt::format("<th{}>{}</th>", side_of(table.sides, c), table.columns[c]);
  html += "</tr></thead><tbody>\n";
  for (const auto& row : table.rows) {
    html += "<tr>";
    for (size_t c = 0; c < row.size(); ++c)
      html += fmt::format("<td{}>{}</td>", side_of(table.sides, c), row[c]);
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string facts(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::string html = "<dl class=facts>\n";
  for (const auto& [name, value] : rows)
    html += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", name, value);
  return html + "</dl>\n";
}

std::string facts_of(const Json& object) {
  std::vector<std::pair<std::string, std::string>> rows;
  const std::function<void(const Json&)> add = [&](const Json& values) {
    for (const auto& [name, value] : values.items())
      if (value.is_object())
        add(value);
      else if (name.ends_with("_bytes") && value.is_number())
        rows.emplace_back(escaped(name.substr(0, name.size() - 6)), bytes_text(value));
      else
        rows.emplace_back(escaped(name), escaped(plain(value)));
  };
  add(object);
  return facts(rows);
}

std::string key_numbers(const std::vector<KeyNumber>& numbers) {
  std::string html = fmt::format("<dl class=key style=--n:{}>\n", numbers.size());
  for (const auto& [name, value, note] : numbers)
    html +=
        fmt::format("<div><dt>{}</dt><dd>{}</dd><dd class=note>{}</dd></div>\n", name, value, note);
  return html + "</dl>\n";
}

std::string names_list(const std::string& title, const std::string& note,
                       const std::vector<std::string>& names, bool off) {
  if (names.empty()) return "";
  std::string items;
  for (const std::string& name : names)
    items += fmt::format("<li{}>{}</li>\n", off ? " class=off" : "", escaped(name));
  return fmt::format("<h3>{} <span>{}</span></h3>\n<ul class=names>{}</ul>\n", title, escaped(note),
                     items);
}

std::string section(const std::string& title, const std::string& body) {
  if (body.empty()) return "";
  return fmt::format("<section>\n<h2>{}</h2>\n{}</section>\n", title, body);
}

std::string grid(const std::string& figures) {
  if (figures.empty()) return "";
  return fmt::format("<div class=grid>\n{}</div>\n", figures);
}

std::string fold(const std::string& title, const std::string& body) {
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", title, body);
}

}  // namespace bellows
