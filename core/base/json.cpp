#include "core/base/json.h"
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace bellows {

std::string to_line(const Json& object) {
  return object.dump(-1, ' ', true, Json::error_handler_t::replace);
}

namespace {

// Builds a value from the parser's events, so that nothing beyond the limits is ever built.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Json root = Json::value_t::discarded;
  std::string why;

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(int64_t value) override { return add(value); }
  bool number_unsigned(uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string&) override {
    if (std::abs(value) > kMostNumber) return refuse(cat("a number beyond ", kMostNumber));
    return add(std::abs(value) < kLeastNumber ? 0.0 : value);
  }
  bool string(std::string& text) override { return add(std::move(text)); }
  bool binary(Json::binary_t&) override { return false; }  // JSON text has none
  bool key(std::string& key) override { return key_ = std::move(key), true; }
  bool start_object(size_t) override { return add(Json::object()); }
  bool start_array(size_t) override { return add(Json::array()); }
  bool end_object() override { return open_.pop_back(), true; }
  bool end_array() override { return open_.pop_back(), true; }
  bool parse_error(size_t byte, const std::string&, const nlohmann::json::exception&) override {
    return refuse(cat("no JSON at byte ", byte));
  }

 private:
  bool refuse(const std::string& what) { return why = what, false; }
  bool add(Json value) {
    if (++values_ > kJsonValues) return refuse(cat("more than ", kJsonValues, " values"));
    Json* added = &root;
    if (open_.empty())
      root = std::move(value);
    else if (Json& in = *open_.back(); in.is_array())
      added = &in.emplace_back(std::move(value));
    else  // without the search of operator[]
      added = &in.get_ref<Json::object_t&>().emplace_back(key_, std::move(value)).second;
    if (added->is_structured()) open_.push_back(added);
    return open_.size() <= kJsonDepth || refuse(cat("nested deeper than ", kJsonDepth));
  }

  std::vector<Json*> open_;  // lists and objects that are being read
  std::string key_;
  size_t values_ = 0;
};

}  // namespace

Json parse_json(std::string_view text, std::string* why) {
  Builder builder;
  if (Json::sax_parse(text.begin(), text.end(), &builder)) return std::move(builder.root);
  if (why) *why = builder.why;
  return Json::value_t::discarded;
}

Json read_json(const Path& path, Exit exit) {
  std::string why;
  Json value = parse_json(read_file(path, kJsonBytes, exit), &why);
  if (value.is_discarded())
    fail(exit, printable(path.native()), ": ", why, "; the file is damaged, or of another kind");
  return value;
}

}  // namespace bellows
