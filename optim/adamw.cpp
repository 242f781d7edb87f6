// adamw: Adam whose weight decay does not pass through the moments.
#include "core/config/choice.h"
#include "optim/adam.h"

namespace bellows {

static UpdateRule adamw(const AdamWOptions& o) { return adam_rule(o, Decay::decoupled); }
static const AddEntry<UpdateRule()> entry("adamw", "Adam with decoupled weight decay", adamw);

}  // namespace bellows
