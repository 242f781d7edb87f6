#include "core/config/visitor.h"
#include <algorithm>
#include <charconv>
#include <cmath>
#include "core/config/config.h"

namespace bellows {

// Returns false for `010`, `+5`, `0x10` and `1_000`, which differ from reader to reader.
static bool plain_number(const std::string& text) {
  const size_t first = text.starts_with('-') ? 1 : 0;
  if (text.size() <= first || !std::isdigit(static_cast<unsigned char>(text[first]))) return false;
  const bool more =
      text.size() > first + 1 && std::isdigit(static_cast<unsigned char>(text[first + 1]));
  return text[first] != '0' || !more;
}

// from_chars and to_chars ignore the locale and restore a double exactly. All text must be
// consumed, so `1e3` is not an integer. NaN is not a number.
template <class T> static bool parse(const std::string& text, T& value, Bounds bounds) {
  T parsed;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, parsed);
  if (error != std::errc() || stop != end || !plain_number(text)) return false;
  const double number = static_cast<double>(parsed);
  if (number < bounds.min || number > bounds.max) return false;
  value = parsed;
  return true;
}

static std::string print(auto value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

static std::string print_bound(double bound) {  // 1000000, where to_chars prints 1e+06
  return std::abs(bound) < 1e15 && bound == std::floor(bound) ? print(int64_t(bound))
                                                              : print(bound);
}

template <class T> static Option number(T& value, std::string accepts, Bounds bounds) {
  const bool from = std::isfinite(bounds.min), upto = std::isfinite(bounds.max);
  if (from && upto) {
    accepts += " from " + print_bound(bounds.min) + " to " + print_bound(bounds.max);
  } else if (from || upto) {
    accepts += from ? " >= " + print_bound(bounds.min) : " <= " + print_bound(bounds.max);
  }
  return {print(value), accepts,
          [&value, bounds](const std::string& text) { return parse(text, value, bounds); }};
}

// Limit of int and int64_t options. Counts are multiplied and added without overflow checks, so
// none may come near 2^63.
static constexpr double kMostCount = 1e9;

template <class T> static Option whole_number(T& value, Bounds bounds) {
  bounds.max = std::min(bounds.max, kMostCount);
  bounds.min = std::max(bounds.min, -kMostCount);
  if (!bounds.auto_is_min) return number(value, "a whole number", bounds);
  const auto automatic = static_cast<T>(bounds.min++);
  const Option given = number(value, "auto or a whole number", bounds);
  return {value == automatic ? "auto" : given.text, given.accepts,
          [=, &value](const std::string& text) {
            return text == "auto" ? value = automatic, true : given.read(text);
          }};
}

Option make_option(int& value, Bounds bounds) { return whole_number(value, bounds); }
Option make_option(int64_t& value, Bounds bounds) { return whole_number(value, bounds); }
Option make_option(uint64_t& value, Bounds bounds) {
  return number(value, "a whole number", {.min = 0, .max = bounds.max});
}
Option make_option(double& value, Bounds bounds) { return number(value, "a number", bounds); }
Option make_option(bool& value, Bounds) {
  return one_of({"false", "true"}, value ? "true" : "false", [&value](size_t i) { value = i; });
}
Option make_option(std::string& value, Bounds) {
  return {value, "text",
          [&value](const std::string& text) { return value = with_home(text), true; }};
}

Option one_of(const Names& names, const std::string& value, std::function<void(size_t)> set) {
  std::string accepts;
  for (const std::string& name : names) accepts += (accepts.empty() ? "" : " or ") + name;
  return {value, accepts, [names, set = std::move(set)](const std::string& text) {
            const auto found = std::ranges::find(names, text);
            if (found == names.end()) return false;
            set(found - names.begin());
            return true;
          }};
}

}  // namespace bellows
