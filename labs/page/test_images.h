// Evaluates the checkpoint of a run again, for the part of its page that shows images.
#pragma once
#include "core/base/file.h"
#include "core/base/json.h"

namespace bellows {

// Returns null if the samples are not images with a class. Else an object:
//   samples, of  test images judged, at most 2,000 that are evenly spaced, and all of them
//   classes      names
//   pairs        [[label, answer, count], ...]
//   worst, last  [{label, guess, loss, jpeg}, ...]: those with the largest loss, the largest first,
//                and the first of the last batch; at most 8, in base64, of 64 pixels a side
// Throws Error if the run has no checkpoint, or its data cannot be read.
Json judge_test_images(const Path& run);

}  // namespace bellows
