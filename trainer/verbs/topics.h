// The words that `trainer explain` knows beside registered names: the topics and the trace counters
// of docs/topics.md. Adding one is adding a section, or a line, there.
#pragma once
#include <string>
#include <vector>
#include "core/base/words.h"

namespace bellows {

struct Topic {
  std::string name;  // "GradScaler"
  Names others;      // "loss scale"
  std::string text;  // paragraphs, and indented commands; the last paragraph may be "See: ..."
};
const std::vector<Topic>& topics();

struct CounterLine {
  std::string name;  // "amp.low_ops", or a pattern: "lock.*.wait_ns"
  std::string text;  // what it counts
};
const std::vector<CounterLine>& counter_lines();
// Returns the line whose name or pattern matches, or null.
const CounterLine* find_counter(const std::string& name);
// Lines "amp.low_ops autograd/amp.h:59", which tools/counters.sh makes from the sources.
extern const char* const kCounterPlaces;
// Returns the lines of code that count it, "autograd/amp.h:59, ..."; "" if none names it literally.
std::string places_of(const std::string& counter);

// Returns the name without case, spaces, "_" and "-": early_stopping is EarlyStopping.
std::string folded(const std::string& name);

// Each prints what it knows of the word. Returns false if that is nothing.
bool explain_topic(const std::string& name);
bool explain_counter(const std::string& name);

}  // namespace bellows
