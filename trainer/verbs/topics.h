// The words that `trainer explain` knows beside registered names: the topics and trace counters of
// docs/topics.md. To add one, add a section or a line there.
#pragma once
#include <string>
#include <vector>
#include "core/base/words.h"

namespace bellows {

struct Topic {
  std::string name;  // "GradScaler"; "amp.low_ops"; of several counters "lock.*.wait_ns"
  Names others;      // "loss scale"
  std::string text;  // paragraphs, indented commands, "See: ..." at the end; what a counter counts
  bool counter = false;
};
const std::vector<Topic>& topics();
const Topic* find_topic(const std::string& name);  // ignores case; null if there is none
bool explain_topic(const std::string& name);       // prints it; false if there is none
std::string list_places(
    const std::string& counter);  // places that count it: "autograd/amp.h:59, ..."
// Lines "amp.low_ops autograd/amp.h:59", which tools/counters.sh makes from the sources.
extern const char* const kCounterPlaces;

// Returns the name without case, spaces, "_" and "-": early_stopping is EarlyStopping.
std::string folded(const std::string& name);

}  // namespace bellows
