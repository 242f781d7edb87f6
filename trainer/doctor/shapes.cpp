#include "trainer/doctor/shapes.h"
#include "trainer/tables.h"

namespace bellows {

static int64_t padded(int64_t size) { return (size + 7) / 8 * 8; }

std::string odd_shapes(const NamedTensors& parameters) {
  std::vector<TableRow> rows = {{"weight", "out", "in", "pad to"}};
  for (const auto& [name, tensor] : parameters) {
    if (tensor.rank() < 2) continue;  // a bias is added, not multiplied
    const int64_t out = tensor.dim(0), in = tensor.dim(1);
    if (padded(out) == out && padded(in) == in) continue;
    rows.push_back({name, cat(out), cat(in), cat(padded(out), ", ", padded(in))});
  }
  return rows.size() > 1 ? aligned(rows, "lrrr") : "all sizes are multiples of 8\n";
}

}  // namespace bellows
