#include "trainer/profile/activity.h"
#include "core/base/output.h"

namespace bellows {

bool record_activities() {
  if (activity_api.record) return activity_api.record();
  warn("this binary was built without CUPTI; times of the device are absent");
  return false;
}

std::vector<Activity> take_activities() { return activity_api.take(); }

}  // namespace bellows
