// What a new run starts from, where that is not chance.
#pragma once
#include "trainer/session/session.h"

namespace bellows {

// plan.train.weights: a file or a run folder, of this program or of whoever else uses the model's
// names (PyTorch's, also with the "module." of its DistributedDataParallel in front), in any type
// of float; nothing where the plan names none. What was taken, and what not, goes to `notes`.
// Throws Error: exit 4 for a file that does not fit, before anything is changed, 5 for numbers that
// are not finite where ckpt.require_finite is on.
void load_weights(Session& session, std::vector<std::string>& notes);

}  // namespace bellows
