// A trained model out of a run folder or a checkpoint: what eval and predict work on.
#pragma once
#include <memory>
#include "trainer/session.h"

namespace bellows {

// The plan is the one that it was trained under, with these `key=value` changes. What had to be
// passed over (a damaged checkpoint) is said on stdout. Throws Error.
std::unique_ptr<Session> load_trained(const std::string& file_or_run, const Names& overrides);

}  // namespace bellows
