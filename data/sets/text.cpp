// text: windows of a file as bytes. The target of each byte is the next one.
#include <algorithm>
#include "core/base/file.h"
#include "core/base/utf8.h"
#include "data/sets/arrays.h"
#include "data/sets/held_out.h"

namespace bellows {

namespace {
struct TextOptions : HeldOut {
  int64_t length = 256;
};
void visit(Visitor& v, TextOptions& o) {
  visit(v, static_cast<HeldOut&>(o));
  v("length", o.length, "bytes of a window", {.min = 1, .max = 1 << 20});
}
}  // namespace

static DatasetPtr make_text(const TextOptions& o, const DatasetContext& context) {
  constexpr int64_t kMost = int64_t{1} << 32;
  const std::string path = o.of(context.split), bytes = read_file(path, kMost, Exit::data);
  const int64_t windows = (std::ssize(bytes) - 1) / o.length;
  std::vector<uint8_t> x, y;
  for (const int64_t i : o.taken(context.split, windows)) {
    const auto begin = bytes.begin() + i * o.length;
    x.insert(x.end(), begin, begin + o.length);
    y.insert(y.end(), begin + 1, begin + o.length + 1);
  }
  const Shape shape{std::ssize(x) / o.length, o.length};
  if (shape[0] == 0)
    fail(Exit::data, printable(path), ": ", bytes.size(), " bytes are too few for windows of ",
         o.length, " to train and to test on; lower  data.length");
  DatasetInfo info = text_info(o.length, 256);
  info.target.varies = false;
  info.units = o.length;
  return std::make_shared<ArrayDataset>(
      info, Arrays{.x = tensor_of(x, shape), .y = tensor_of(y, shape)}, printable(path));
}
static const AddDataset text_entry("text", "windows of a text file, as bytes", &make_text,
                                   {"txt", "corpus", "language_model", "book", "char"});
static const AddEntry<EncodeText> text_inputs("text", "texts", &tokens_of);

}  // namespace bellows
