#include "trainer/doctor/shapes.h"
#include "core/base/round.h"
#include "trainer/verbs/tables.h"

namespace bellows {

std::string unaligned_shapes(const NamedTensors& parameters) {
  std::vector<TableRow> rows = {{"weight", "out", "in", "pad to"}};
  for (const auto& [name, tensor] : parameters) {
    if (tensor.rank() < 2) continue;  // biases are not operands of a product
    const int64_t out = tensor.dim(0), in = tensor.dim(1);
    const int64_t wide_out = round_up(out, 8), wide_in = round_up(in, 8);
    if (wide_out == out && wide_in == in) continue;
    rows.push_back({name, cat(out), cat(in), cat(wide_out, ", ", wide_in)});
  }
  return rows.size() > 1 ? aligned(rows, "lrrr") : "all sizes are multiples of 8\n";
}

}  // namespace bellows
