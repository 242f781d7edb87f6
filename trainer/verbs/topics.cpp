#include "trainer/verbs/topics.h"
#include <fnmatch.h>
#include <algorithm>
#include <cctype>
#include <sstream>
#include "core/base/output.h"
#include "plan/toggle.h"
#include "trainer/verbs/tables.h"

namespace bellows {

constexpr std::string_view kTopics =
#include <topics.md.inc>
    ;
constexpr std::string_view kCounters = "\n# Counters\n", kSee = "See: ";

// Splits a section, "GradScaler\n\nAlso: scaler.\n\nIn fp16 ...".
static Topic topic_of(const std::string& section) {
  const size_t heading = section.find('\n');
  Topic topic = {
      section.substr(0, heading), {}, section.substr(section.find_first_not_of('\n', heading))};
  if (!topic.text.starts_with("Also: ")) return topic;
  const size_t end = topic.text.find("\n\n");
  std::istringstream names(topic.text.substr(6, end - 6));
  for (std::string name; std::getline(names >> std::ws, name, ',');) topic.others.push_back(name);
  topic.text.erase(0, end + 2);
  return topic;
}

const std::vector<Topic>& topics() {
  static const std::vector<Topic> all = [] {
    std::vector<Topic> found;
    const std::string text(kTopics.substr(0, kTopics.find(kCounters)));
    for (size_t at = text.find("\n## "), end; at != text.npos; at = end) {
      end = text.find("\n## ", at + 1);
      found.push_back(topic_of(text.substr(at + 4, end == text.npos ? end : end - at - 5)));
    }
    return found;
  }();
  return all;
}

const std::vector<CounterLine>& counter_lines() {
  static const std::vector<CounterLine> all = [] {
    std::vector<CounterLine> found;
    std::istringstream lines{std::string(kTopics.substr(kTopics.find(kCounters)))};
    for (std::string line; std::getline(lines, line);)
      if (const size_t colon = line.find(": "); line.starts_with("- ") && colon != line.npos)
        found.push_back({line.substr(2, colon - 2), line.substr(colon + 2)});
    return found;
  }();
  return all;
}

const CounterLine* find_counter(const std::string& name) {
  for (const CounterLine& line : counter_lines())
    if (line.name == name || fnmatch(line.name.c_str(), name.c_str(), 0) == 0) return &line;
  return nullptr;
}

std::string places_of(const std::string& counter) {
  Names places;
  std::istringstream lines(kCounterPlaces);
  for (std::string name, place; lines >> name >> place;)
    if (name == counter) places.push_back(place);
  return joined(places);
}

std::string folded(const std::string& name) {
  std::string letters;
  for (const unsigned char c : name)
    if (c != '_' && c != '-' && c != ' ') letters += static_cast<char>(std::tolower(c));
  return letters;
}

static void say_each(const std::string& list) {
  std::istringstream items(list);
  for (std::string item; std::getline(items >> std::ws, item, ',');) say("    " + item);
}

// Prints paragraphs in 80 columns, and commands, which are indented, as they are. The places to
// look at follow, one per line.
bool explain_topic(const std::string& name) {
  const auto topic = std::ranges::find_if(topics(), [&](const Topic& known) {
    return folded(known.name) == folded(name) ||
           std::ranges::count(known.others, folded(name), folded);
  });
  if (topic == topics().end()) return false;
  if (folded(topic->name) != folded(name)) say(topic->name + ":");
  std::istringstream lines(topic->text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(kSee))
      say_each(line.substr(kSee.size()));
    else
      say_part((line.starts_with(" ") ? line : wrapped(line, "")) + "\n");
  return true;
}

bool explain_counter(const std::string& name) {
  const CounterLine* const counter = find_counter(name);
  if (!counter) return false;
  say_part(wrapped(cat("counter ", name, ": ", counter->text), "  ") + "\n");
  if (const std::string places = places_of(name); !places.empty())
    say_part(wrapped("  counted in: " + places, "    ") + "\n");
  for (const Toggle& toggle : toggles())
    if (toggle.footprint == name) say("  footprint of the toggle " + toggle.name);
  return true;
}

}  // namespace bellows
