// Record: a struct as a JSON object, in the metadata of a checkpoint. A struct lists its members
// once, for both directions:  void visit(Record& r, Best& best) { r("step", best.step); ... }
#pragma once
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include "core/base/json.h"
#include "core/config/visitor.h"

namespace bellows {

template <class T>
concept Number = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

// A negative count would be an invalid index, and a huge one would never be reached.
template <Number T>
constexpr Bounds kUsual =
    std::is_integral_v<T> ? Bounds{0, 1e12} : Bounds{-kMostNumber, kMostNumber};

template <class T> Json to_record(T value);
// Throws Error (exit 4) for a number out of range, Json::exception for a member that is missing or
// has another type.
template <class T> T from_record(const Json& json);

struct Record {
  Json json = Json::object();
  bool reading = false;

  template <Number T> void operator()(const char* key, T& value, Bounds bounds = kUsual<T>) {
    if (!reading) return void(json[key] = value);
    const Json& found = json.at(key);
    const bool right_type = std::is_floating_point_v<T> || found.is_number_integer();
    if (!right_type || !(found >= bounds.min && found <= bounds.max))
      fail(Exit::checkpoint, "the checkpoint's '", key, "' is ", to_line(found), ", not a ",
           std::is_integral_v<T> ? "count" : "number", " from ", bounds.min, " to ", bounds.max);
    found.get_to(value);
  }
  // A bool, a text, or a list of numbers or texts.
  template <class T>
  requires(!Number<T>) void operator()(const char* key, T& value) {
    reading ? void(json.at(key).get_to(value)) : void(json[key] = value);
  }
  // JSON has no infinity and no NaN. They are written as null, which is read as the value `null`.
  template <Number T> void or_null(const char* key, T& value, T null) {
    if (reading && json.at(key).is_null()) return void(value = null);
    (*this)(key, value);
  }
  void operator()(const char* key, std::optional<double>& value) {
    double number = value.value_or(NAN);
    or_null<double>(key, number, NAN);
    value = std::isnan(number) ? std::nullopt : std::optional(number);
  }
  template <class T> void group(const char* key, T& value) {
    reading ? void(value = from_record<T>(json.at(key))) : void(json[key] = to_record(value));
  }
};

template <class T> Json to_record(T value) {
  Record record;
  visit(record, value);
  return record.json;
}

template <class T> T from_record(const Json& json) {
  Record record{json, true};
  T value = {};
  visit(record, value);
  return value;
}

}  // namespace bellows
