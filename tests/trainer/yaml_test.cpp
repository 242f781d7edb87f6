// Config files and overrides that are refused, and the errors, with line and column.
#include "core/config/yaml.h"
#include <sys/stat.h>
#include <filesystem>
#include <functional>
#include "core/config/config.h"
#include "tests/data/files.h"
#include "tests/refusal.h"

using namespace bellows;
namespace fs = std::filesystem;

static std::string answer_of(const std::function<void()>& read) {
  const Refusal answer = refused(read);
  EXPECT_TRUE(answer.exit == Exit::usage || answer.message == "no error") << answer.message;
  return answer.message;
}
static std::string answer(const std::string& text) {
  return answer_of([&] { parse_yaml(text, "a.yaml"); });
}

static std::map<std::string, std::string> texts(const Values& values) {
  std::map<std::string, std::string> texts;
  for (const auto& [key, value] : values) texts[key] = value.text;
  return texts;
}
using Texts = std::map<std::string, std::string>;

// Returns nested maps or nested lists.
static std::string nested(size_t depth, const std::string& open, const std::string& close) {
  std::string text;
  for (size_t i = 0; i < depth; ++i) text += open;
  text += "x";
  for (size_t i = 0; i < depth; ++i) text += close;
  return "a: " + text;
}

TEST(Yaml, BecomesFlatValuesWithTheirPlaces) {
  const Values values = parse_yaml(
      "\xef\xbb\xbf"  // a byte order mark
      "loader:\n"
      "  batch: 64   # a comment\n"
      "  root: \"~\"\n"
      "model:\n"
      "  layers: [flatten, {name: linear, out: 10}]\n"
      "  none: []\n"
      "toggles.amp: bf16\n",
      "a.yaml");
  EXPECT_EQ(texts(values), (Texts{{"loader.batch", "64"},
                                  {"loader.root", "~"},
                                  {"model.layers.0", "flatten"},
                                  {"model.layers.1.name", "linear"},
                                  {"model.layers.1.out", "10"},
                                  {"model.none", "[]"},
                                  {"toggles.amp", "bf16"}}));
  EXPECT_EQ(values.at("loader.batch").origin, "a.yaml:2:3");
  EXPECT_EQ(values.at("model.layers.0").origin, "a.yaml:5:12");
  EXPECT_EQ(values.at("model.layers.1.out").origin, "a.yaml:5:36");
}

TEST(Yaml, ThatReadersReadDifferentlyIsRefused) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"a: 1\nb: 2\na: 3\n", "3:1: duplicate key 'a', first given in line 1"},
      {"a: {b: 1, b: 2}", "1:11: duplicate key 'a.b', first given in line 1"},
      {"a: {b: 1}\na: {c: 2}\n", "2:1: duplicate key 'a', first given in line 1"},
      {"a: {b: 1}\na.b: 2\n", "2:1: duplicate key 'a.b', first given in line 1"},
      {"a: &x 1\n", "1:4: anchors (&) are not allowed"},
      {"a: &x [1, *x]\n", "1:4: anchors (&) are not allowed"},
      {"a: *x\n", "1:4: the referenced anchor is not defined"},
      {"<<: {a: 1}\n", "1:1: merge keys (<<) are not allowed; write  base: other.yaml"},
      {"a: !!python/object:os.system b\n", "1:4: tags (!) are not allowed"},
      {"a: 1\n--- \nb: 2\n", "2:1: a second document, or text behind the end of the first"},
      {"a: [1]]\n", "1:7: "},
      {"a:\n", "1:1: 'a' has no value; give it one or leave it out"},
      {"a: {b: 1, c}\n", "1:11: 'a.c' has no value"},
      {"a: [1, ~]\n", "1:8: 'a.1' has no value"},
      {"a: {}\n", "1:4: 'a' is an empty map; leave it out"},
      {"? [a, b]\n: 1\n", "1:3: a list or a map cannot be a key"},
      {"~: 1\n", "1:1: a key without a name"},
      {"\"\": 1\n", "1:1: a key is made of letters, digits, _ and -"},
      {"a b: 1\n", "1:1: a key is made of letters, digits, _ and -"},
      {"layers.0: 1\n", "1:1: 'layers.0': items are not set one by one; write the whole list"},
      {std::string(200, 'k') + ": 1\n", "1:1: a key of more than 100 letters"},
      {"a: 1\n b: 2\n", "2:3: illegal map value"},
      {"a: [1, 2\n", "2:1: end of sequence flow not found"},
      {"a: \"x\nb: 1\n", "3:1: quotes that are not closed before this line"},
      {"\ta: 1\n", "1:1: a tab; indent with spaces"},
      {"a:\n  \tb: 1\n", "2:3: a tab; indent with spaces"},
      {"[1, 2]\n", "1:1: a config is a map; write  key: value"},
      {"", "1:1: an empty file; write  key: value"},
      {"\xff\xfe", "1:1: this byte is not text; save the file as UTF-8"},
      {"a: 1\nb: \x80\n", "2:4: this byte is not text"},
      {"a: \x1b[31m", "1:4: this byte is not text"},
  };
  for (const auto& [text, expected] : table)
    EXPECT_THAT(answer(text), AllOf(StartsWith("a.yaml:" + expected), Not(HasSubstr("\n"))))
        << text;
}

TEST(Yaml, StaysWithinItsBounds) {
  EXPECT_EQ(answer(nested(31, "[", "]")), "no error");
  EXPECT_THAT(answer(nested(32, "[", "]")), StartsWith("a.yaml:1:35: nested deeper than 32"));
  EXPECT_THAT(answer(nested(32, "{a: ", "}")), HasSubstr("nested deeper than 32"));
  std::string many = "a: [";
  for (int i = 0; i < 10'000; ++i) many += "1,";
  EXPECT_THAT(answer(many + "1]"), HasSubstr("more than 10000 keys and values"));
  EXPECT_THAT(answer("a: " + std::string(kYamlBytes, 'x')), StartsWith("a.yaml:1:1: larger than"));
}

namespace {

struct TextOption {
  std::string text;
};
void visit(Visitor& v, TextOption& o) { v("text", o.text, "any"); }

}  // namespace

// The shell has removed the user's quotes. YAML would drop a comment and the blanks around a value.
TEST(Overrides, AreWhatTheShellPassed) {
  for (const std::string text :
       {"photos #1", "photos ", " photos",    "photos\t", "# x",       "~",    "null", "&x 1",
        "!!int 1",   "*x",      "a: b",       "- a",      "1\n---\n2", "it's", "'90s", "\"x\" #y",
        "a]",        "x {y",    "größe 画像", "%",        "@a",        "true", "010",  "-5",
        "1e-3",      "key:",    "=",          "`a`",      "| a",       "> a",  "?",    "..."}) {
    const Values values = parse_overrides({"data.root=" + text});
    EXPECT_EQ(texts(values), (Texts{{"data.root", text}}));
    // A printed config holds the same value.
    const std::string printed = print(TextOption{text}, {});
    EXPECT_EQ(load(TextOption{}, parse_yaml(printed, "printed")).text, text);
  }
  for (const char* text : {"[a, b] #1", "{b: 1} # [", "{b: 1} #}", "[a] #]"})
    EXPECT_THAT(
        answer_of([&] { parse_overrides({cat("a=", text)}); }),
        AllOf(StartsWith("command line: 'a="), HasSubstr(" flow not found; write  a=VALUE")));
}

TEST(Overrides, ThatAreMalformedSayWhatToType) {
  const std::string forms = "; write  a=VALUE, 'a=[A, B]' or 'a={KEY: VALUE}'";
  const std::vector<std::pair<std::string, std::string>> table = {
      {"a", "'a' is not key=value; write  optimizer.lr=0.1"},
      {"--resume", "'--resume' is not key=value"},
      {"my run.yaml", "'my run.yaml' is not key=value; write  --config 'my run.yaml'"},
      {"=1", "'=1': a key is made of letters, digits, _ and -"},
      {"layers.0=1", "'layers.0=1': 'layers.0': items are not set one by one; write the whole"},
      {"a=", "'a=': 'a' has no value"},
      {"a=[1,2", "'a=[1,2': end of sequence flow not found" + forms},
      {"a={b: 1", "'a={b: 1': end of map flow not found" + forms},
      {"a={}", "'a={}': 'a' is an empty map"},
      {"a=[1]\n---\n[2]", "'a=[1] --- [2]': a second document"},
      {"a=\xff", "'a=\xff': no text" + forms},
  };
  for (const auto& [text, expected] : table)
    EXPECT_THAT(answer_of([t = text] { parse_overrides({t}); }),
                StartsWith("command line: " + expected));
  EXPECT_EQ(answer_of([] { parse_overrides({"a=1", "a=2"}); }), "command line: 'a' is given twice");
}

struct ConfigFile : testing::Test {
  const TempFolder folder;
};

TEST_F(ConfigFile, ComesBehindItsBases) {
  folder.write("sub/deep.yaml", "a: 1\n");
  folder.write("first.yaml", "base: sub/deep.yaml\nb: 2\n");
  folder.write("second.yaml", "c: 3\n");
  const auto sources =
      read_config(folder.write("run.yaml", "d: 4\nbase: [first.yaml, second.yaml]\n"));
  std::vector<Texts> all;
  for (const Values& source : sources) all.push_back(texts(source));
  ASSERT_THAT(
      all, ElementsAre(Texts{{"a", "1"}}, Texts{{"b", "2"}}, Texts{{"c", "3"}}, Texts{{"d", "4"}}));
  EXPECT_EQ(sources[0].at("a").origin, (folder.path / "sub/deep.yaml").string() + ":1:1");
}

TEST_F(ConfigFile, WithAWrongBaseIsRefused) {
  const auto said = [](const std::string& path) { return answer_of([&] { read_config(path); }); };
  const std::string lost = folder.write("lost.yaml", "a: 1\nbase: none.yaml\n");
  EXPECT_EQ(said(lost),
            cat(lost, ":2:1: base ", (folder.path / "none.yaml").string(), " does not exist"));
  const std::string self = folder.write("self.yaml", "base: self.yaml\n");
  EXPECT_THAT(said(self), StartsWith(self + ":1:1: base " + self + " is, in the end, based on"));
  const std::string one = folder.write("one.yaml", "base: sub/two.yaml\n");
  const std::string two = folder.write("sub/two.yaml", "base: ../one.yaml\n");
  EXPECT_THAT(said(one), StartsWith(two + ":1:1: base " + one + " is, in the end, based on"));
  std::string last = folder.write("0.yaml", "a: 1\n");  // 2^20 files without a limit
  for (int i = 1; i < 20; ++i)
    last = folder.write(cat(i, ".yaml"), cat("base: [", i - 1, ".yaml, ", i - 1, ".yaml]\n"));
  EXPECT_THAT(said(last), HasSubstr("more than 32 files"));
}

TEST_F(ConfigFile, IsARegularFile) {
  const auto said = [](const std::string& path) { return answer_of([&] { read_yaml(path); }); };
  EXPECT_EQ(said(folder.path / "none.yaml"),
            (folder.path / "none.yaml").string() + ": there is no such config file");
  EXPECT_THAT(said(folder.path), HasSubstr("not a regular file"));
  ASSERT_EQ(mkfifo((folder.path / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(said(folder.path / "fifo"), HasSubstr("not a regular file"));
  const std::string huge = folder.write("huge.yaml", "");
  fs::resize_file(huge, uintmax_t{1} << 40);
  EXPECT_THAT(said(huge), HasSubstr("bytes, at most 262144 are read"));
}
