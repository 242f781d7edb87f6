// A profile as text of 80 columns, and as JSON.
#pragma once
#include "core/base/json.h"
#include "trainer/profile/analysis.h"

namespace bellows {

std::string text_of(const Profile& profile, const Ceilings& ceilings);
// All rows; times in seconds, sizes in bytes, shares from 0 to 1.
Json json_of(const Profile& profile, const Ceilings& ceilings);

}  // namespace bellows
