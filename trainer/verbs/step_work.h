// FLOP and bytes of one update, as its ops state them (ops/base/work.h).
#pragma once
#include <optional>
#include <string>
#include <vector>
#include "ops/base/work.h"
#include "plan/plan.h"
#include "trainer/session/data_card.h"

namespace bellows {

class Session;
// Returns the work of the optimizer in an update.
Cost work_of_update(const Session& session);

// All calls of one op in one direction ("conv2d", "conv2d, backward"), the sums of gradients or the
// update.
struct WorkItem {
  std::string name;
  DType dtype = DType::f32;
  Cost work;
};
struct StepWork {
  std::vector<WorkItem> items;
  int64_t ops = 0, launches = 0;  // launches: 0 if the device does not count them
  Cost total() const;
};

// Records an update on two and one on four samples, here, and scales their work to the batch of the
// plan: weights do not grow with it. `trained`: as Session takes it. Throws Error as Session does,
// and exit 2 if the model's ops depend on the batch.
StepWork step_work(Plan plan, const std::optional<TrainingSetInfo>& trained = {});

}  // namespace bellows
