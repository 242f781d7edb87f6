#include "optim/schedule.h"

namespace bellows {

static Curve constant(const NoOptions&, const Horizon&) {
  return [](int64_t) { return 1.0; };
}
static const AddEntry<MakeCurve> constant_entry("constant", "the peak rate throughout", constant);

}  // namespace bellows
