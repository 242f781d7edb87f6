// lines: each line of a UTF-8 text file is a sample, as bytes. A tab separates input and target:
//
//   target: text    the target follows the input in one sequence, and only it counts in the loss;
//                   a line without a tab counts whole
//   target: label   what follows the tab is the class of the text before it
#include <algorithm>
#include <set>
#include "core/base/file.h"
#include "core/base/utf8.h"
#include "data/sets/arrays.h"
#include "data/sets/held_out.h"

namespace bellows {

namespace {

enum class LineTarget { text, label };
struct LinesOptions : HeldOut {
  LineTarget target = LineTarget::text;
  int64_t longest = 256;
};
void visit(Visitor& v, LinesOptions& o) {
  visit(v, static_cast<HeldOut&>(o));
  v("target", o.target, {"text", "label"}, "what follows a tab: a text or a class");
  v("longest", o.longest, "most bytes of a line", {.min = 2, .max = 1 << 20});
}

// Splits `all` into lines and checks them. Throws Error(Exit::data).
std::vector<std::string_view> lines_of(std::string_view all, const std::string& path,
                                       int64_t longest) {
  const auto refuse = [&](int64_t number, const auto&... what) {
    fail(Exit::data, path, ", line ", number, ": ", what...);
  };
  std::vector<std::string_view> lines;
  while (!all.empty()) {
    const std::string_view text = all.substr(0, all.find('\n'));
    all.remove_prefix(std::min(all.size(), text.size() + 1));
    const int64_t number = std::ssize(lines) + 1, size = std::ssize(text);
    if (text.empty()) refuse(number, "is empty");
    if (size > longest)
      refuse(number, size, " bytes, and data.longest is ", longest,
             "; raise it or shorten the line");
    if (text.back() == '\r') refuse(number, "ends in a carriage return; write line ends as \\n");
    if (const size_t at = find_non_text(text); at != text.npos)
      refuse(number, "byte ", at, " is not UTF-8 text");
    lines.push_back(text);
  }
  return lines;
}

// Adds x, the line without its last byte, and y, without its first. The line ends in a newline.
void add_text(Sequences& all, std::string_view line) {
  const size_t tab = line.find('\t');
  std::vector<int64_t> x, y;
  for (size_t i = 0; i < line.size(); ++i) {
    x.push_back(uint8_t(line[i]));
    const bool counts = tab == line.npos || i >= tab;
    y.push_back(!counts ? -1 : i + 1 < line.size() ? uint8_t(line[i + 1]) : '\n');
  }
  all.add(x, y);
}

std::vector<std::string_view> labels_of(const std::vector<std::string_view>& lines,
                                        const std::string& path) {
  std::vector<std::string_view> labels;
  for (const std::string_view line : lines) {
    const size_t tab = line.find('\t');
    if (tab == 0 || tab == line.npos)
      fail(Exit::data, path, ", line ", labels.size() + 1, ": needs a text, a tab and a label");
    labels.push_back(line.substr(tab + 1));
  }
  return labels;
}

}  // namespace

static DatasetPtr labelled(const std::vector<std::string_view>& lines, const std::string& path,
                           const LinesOptions& o, const DatasetContext& context) {
  const std::vector<std::string_view> labels = labels_of(lines, path);
  std::vector<std::string> names = context.classes;
  if (names.empty()) {
    const std::set<std::string_view> found(labels.begin(), labels.end());
    names.assign(found.begin(), found.end());
  }
  for (size_t i = 0; i < labels.size(); ++i)
    if (!std::ranges::count(names, labels[i]))
      fail(Exit::data, path, ", line ", i + 1, ": the label ", printable(labels[i]),
           " is not among those of the training file");
  Sequences all;
  std::vector<int64_t> classes;
  for (const int64_t i : o.taken(context.split, std::ssize(lines))) {
    classes.push_back(std::ranges::find(names, labels[i]) - names.begin());
    const std::string_view text = lines[i].substr(0, lines[i].find('\t'));
    all.add(std::vector<int64_t>(text.begin(), text.end()), {});
  }
  Arrays arrays = all.take();
  arrays.y = tensor_of(classes, {std::ssize(classes)});
  DatasetInfo info = text_info(o.longest, std::ssize(names));
  info.target = {DType::i64, {}};
  info.names = names;
  return std::make_shared<ArrayDataset>(info, std::move(arrays), path);
}

static DatasetPtr make_lines(const LinesOptions& o, const DatasetContext& context) {
  constexpr int64_t kMost = int64_t{1} << 32;
  const std::string path = o.of(context.split), all = read_file(path, kMost, Exit::data);
  const std::vector<std::string_view> lines = lines_of(all, printable(path), o.longest);
  if (o.target == LineTarget::label) return labelled(lines, printable(path), o, context);
  Sequences taken;
  for (const int64_t i : o.taken(context.split, std::ssize(lines))) add_text(taken, lines[i]);
  return std::make_shared<ArrayDataset>(text_info(o.longest, 256), taken.take(), printable(path));
}
static const AddDataset lines_entry("lines", "lines of a text file, as bytes", &make_lines,
                                    {"sentences", "texts", "text_lines", "jsonl"});
static const AddEntry<EncodeText> lines_inputs("lines", "texts", &tokens_of);

}  // namespace bellows
