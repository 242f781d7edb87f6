// A script that reads counters by name shows 0 for a name that does not exist. So every name in it
// must be a counter of the product.
#include <gmock/gmock.h>
#include "tests/house/tree.h"

using namespace bellows;
using NameSet = std::set<std::string>;

// Returns the text between each `before` and the next quotation mark.
static NameSet quoted(const std::string& text, const std::string& before) {
  NameSet names;
  for (size_t at = 0; (at = text.find(before, at)) != std::string::npos;) {
    const size_t begin = at + before.size(), end = text.find('"', begin);
    names.insert(text.substr(begin, end - begin));
    at = end == std::string::npos ? end : end + 1;
  }
  return names;
}

// Returns the names in a list of a script:  COUNTED = ["a.b", "c.d"]
static NameSet counted_by(const std::string& script) {
  const size_t begin = script.find("COUNTED = ["), end = script.find(']', begin);
  return begin == std::string::npos ? NameSet() : quoted(script.substr(begin, end - begin), "\"");
}

static NameSet counters_of_the_product() {
  NameSet names;
  for (const auto& file : files_in(product_folders(), {".cpp", ".h", ".cu", ".cuh"}))
    for (const char* before : {"counter(\"", "count<\""})
      names.merge(quoted(text_of(file), before));
  return names;
}

TEST(Counters, AreReadAsAScriptListsThem) {
  EXPECT_EQ(counted_by("x = \"y\"\nCOUNTED = [\"a.b\",\n  \"c\"]\nz = \"w\"\n"),
            (NameSet{"a.b", "c"}));
  EXPECT_EQ(quoted("counter(\"a\").add(); counter(\"b.c\")", "counter(\""), (NameSet{"a", "b.c"}));
}

TEST(Counters, ThatAScriptAsksForAreCounted) {
  const NameSet asked = counted_by(text_of("peers/gpu/run.py"));
  EXPECT_FALSE(asked.empty());
  EXPECT_THAT(counters_of_the_product(), testing::IsSupersetOf(asked));
}
