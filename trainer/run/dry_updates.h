// train.dry_updates: the work that a process does only once, before the clock of a run starts.
#pragma once
#include <cstdint>

namespace bellows {

class Session;
class TrainingStep;

// Runs plan.train.dry_updates updates and one evaluation forward on random images of the sizes
// in `epoch`, so that later updates find memory, handles and plans of libraries, tuned kernels and
// the captured update. Then restores parameters, buffers, the optimizer's state, averages and
// StepState, so training continues as if nothing had run; its data and their order are not touched.
// All ranks must call it. Counter: update.dry.
void run_dry_updates(Session& session, TrainingStep& step, int64_t epoch);

}  // namespace bellows
