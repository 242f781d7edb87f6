// sums: additions as text, so that a first run on sequences needs no download: 38+547=585. Only the
// characters of the answer and its end count in the loss. With `reverse` the digits of the answer
// are in reverse order, because each digit then follows from the ones before it.
#include <algorithm>
#include <string>
#include "data/sets/arrays.h"
#include "data/sets/drawn.h"

namespace bellows {

namespace {

struct SumsOptions : DrawnSizes<100000, 2000> {
  int64_t digits = 3;
  bool reverse = true;
};
void visit(Visitor& v, SumsOptions& o) {
  visit(v, static_cast<DrawnSizes<100000, 2000>&>(o));
  v("digits", o.digits, "of each number, at most", {.min = 1, .max = 18});
  v("reverse", o.reverse, "the last digit of the answer comes first");
}

constexpr std::string_view kCharacters = "0123456789+=\n";

// Returns a number of 1 to `digits` digits; each count of digits is as likely as the others.
int64_t draw_number(Draw& draw, int64_t digits) {
  int64_t below = 10;
  for (int64_t n = draw.below(digits); n > 0; --n) below *= 10;
  return draw.below(below);
}

std::string draw_sum(Draw& draw, const SumsOptions& o) {
  const int64_t a = draw_number(draw, o.digits), b = draw_number(draw, o.digits);
  std::string answer = std::to_string(a + b);
  if (o.reverse) std::ranges::reverse(answer);
  return std::to_string(a) + "+" + std::to_string(b) + "=" + answer + "\n";
}

}  // namespace

static DatasetPtr make_sums(const SumsOptions& o, const DatasetContext& context) {
  Sequences all;
  for (int64_t i = 0; i < o.of(context.split); ++i) {
    Draw draw(context.split, i);
    std::vector<int64_t> tokens;
    for (const char c : draw_sum(draw, o)) tokens.push_back(int64_t(kCharacters.find(c)));
    std::vector<int64_t> next(tokens.begin() + 1, tokens.end());
    const auto equals = std::ranges::find(tokens, int64_t(kCharacters.find('='))) - tokens.begin();
    std::fill_n(next.begin(), equals, -1);
    tokens.pop_back();
    all.add(tokens, next);
  }
  const int64_t longest = 3 * o.digits + 3;  // two numbers, the answer's digits, + and =
  DatasetInfo info = text_info(longest, std::ssize(kCharacters));
  for (const char c : kCharacters) info.names.emplace_back(1, c);
  return std::make_shared<ArrayDataset>(info, all.take(), "sums");
}
static const AddDataset sums_entry("sums", "additions as text, drawn by the program", &make_sums,
                                   {"addition", "arithmetic"});
static const AddEntry<EncodeText> sums_inputs("sums", "texts", &tokens_of);

}  // namespace bellows
