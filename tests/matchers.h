// The matchers of gmock that most tests use, by their short names.
#pragma once
#include <gmock/gmock.h>

namespace bellows {

using testing::AllOf, testing::Contains, testing::ContainsRegex, testing::ElementsAre,
    testing::EndsWith, testing::HasSubstr, testing::IsEmpty, testing::Not, testing::StartsWith;

}  // namespace bellows
