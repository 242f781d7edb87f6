// parse_json(): JSON from files that anybody may have written.
#include "core/base/json.h"
#include <nlohmann/json.hpp>
#include "tests/matchers.h"

using namespace bellows;

static std::string fault_of(const std::string& text) {
  std::string why;
  const bool discarded = parse_json(text, &why).is_discarded();
  EXPECT_EQ(discarded, !why.empty()) << why;
  return why;
}

static std::string nested(size_t depth, const std::string& open, const std::string& close) {
  std::string text = "1";
  for (size_t i = 0; i < depth; ++i) text = open + text + close;
  return text;
}

TEST(ParseJson, ReadsWhatTheLibraryReads) {
  for (const std::string text :
       {"null", "true", "-7", "18446744073709551615", "2.5", "\"\\u00e9\\n\"", "[]", "{}", " [1] ",
        R"({"b": [1, {"c": null}, [[]]], "a": {"x": {}, "y": [false]}, "": 0})"}) {
    EXPECT_EQ(parse_json(text).dump(), Json::parse(text).dump());
    EXPECT_EQ(parse_json(text).type(), Json::parse(text).type()) << text;
  }
}

TEST(ParseJson, RefusesOtherText) {
  for (const std::string text : {"", "[", "[1", "1 2", "{\"a\"}", "{1: 2}", "[1,]", "nan", "1e999",
                                 "'a'", "\"\xff\"", "[1]]", "// x"})
    EXPECT_THAT(fault_of(text), HasSubstr("no JSON at byte ")) << text;
}

TEST(ParseJson, StaysWithinItsLimits) {
  EXPECT_EQ(fault_of(nested(kJsonDepth, "[", "]")), "");
  EXPECT_EQ(fault_of(nested(kJsonDepth, "{\"a\":", "}")), "");
  EXPECT_EQ(fault_of(nested(kJsonDepth + 1, "[", "]")), "nested deeper than 32");
  EXPECT_EQ(fault_of(nested(kJsonDepth + 1, "{\"a\":", "}")), "nested deeper than 32");
  EXPECT_EQ(fault_of(std::string(1'000'000, '[')), "nested deeper than 32");
  std::string many = "[";
  for (size_t i = 0; i < kJsonValues; ++i) many += "0,";
  EXPECT_EQ(fault_of(many + "0]"), "more than 4194304 values");
}

TEST(ParseJson, ReadsNumbersWhoseQuotientsAreFinite) {
  EXPECT_EQ(parse_json("[1e-320, -1e-60, 1e-45, 3.4e38]"), Json({0.0, 0.0, 1e-45, 3.4e38}));
  EXPECT_EQ(fault_of("{\"ts\": 1e300}"), "a number beyond 1e+50");
  EXPECT_EQ(fault_of("-1e51"), "a number beyond 1e+50");
}

// An object of the library searches all its keys for each new one: these would take minutes.
TEST(ParseJson, TakesTimeInProportionToTheText) {
  std::string text = "{";
  for (int i = 0; i < 300'000; ++i) text += cat(i ? "," : "", "\"", i, "\":0");
  EXPECT_EQ(parse_json(text + "}").size(), 300'000u);
}
