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
constexpr std::string_view kSee = "See: ";

static Names split_list(const std::string& list) {
  Names items;
  std::istringstream text(list);
  for (std::string item; std::getline(text >> std::ws, item, ',');) items.push_back(item);
  return items;
}

// Reads a section, "GradScaler\n\nAlso: scaler.\n\nIn fp16 ...".
static Topic parse_topic(const std::string& section) {
  const size_t heading = section.find('\n');
  Topic topic = {section.substr(0, heading), {}, section.substr(heading + 2)};
  if (!topic.text.starts_with("Also: ")) return topic;
  const size_t end = topic.text.find("\n\n");
  topic.others = split_list(topic.text.substr(6, end - 6));
  topic.text.erase(0, end + 2);
  return topic;
}

const std::vector<Topic>& topics() {
  static const std::vector<Topic> all = [] {
    std::vector<Topic> found;
    const size_t counters = kTopics.find("\n# Counters\n");
    const std::string text(kTopics.substr(0, counters));
    for (size_t at = text.find("\n## "), end; at != text.npos; at = end) {
      end = text.find("\n## ", at + 1);
      found.push_back(parse_topic(text.substr(at + 4, std::min(end, text.size()) - at - 5)));
    }
    std::istringstream lines{std::string(kTopics.substr(counters))};
    for (std::string line; std::getline(lines, line);)
      if (const size_t colon = line.find(": "); line.starts_with("- "))
        found.push_back({line.substr(2, colon - 2), {}, line.substr(colon + 2), true});
    return found;
  }();
  return all;
}

const Topic* find_topic(const std::string& name) {
  for (const Topic& topic : topics())
    if (folded(topic.name) == folded(name) ||
        std::ranges::count(topic.others, folded(name), folded) ||
        (topic.counter && fnmatch(topic.name.c_str(), name.c_str(), 0) == 0))
      return &topic;
  return nullptr;
}

std::string list_places(const std::string& counter) {
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

// Prints paragraphs in 80 columns, indented commands unchanged, and each place to look at on a
// separate line.
bool explain_topic(const std::string& name) {
  const Topic* const topic = find_topic(name);
  if (!topic) return false;
  if (topic->counter) {
    say_wrapped(cat("counter ", name, ": ", topic->text));
    if (const std::string places = list_places(name); !places.empty())
      say_wrapped("  counted in: " + places, "    ");
    for (const Toggle& toggle : toggles())
      if (toggle.footprint == name) say("  footprint of the toggle " + toggle.name);
    return true;
  }
  if (folded(topic->name) != folded(name)) say(topic->name + ":");
  std::istringstream lines(topic->text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(kSee))
      for (const std::string& place : split_list(line.substr(kSee.size()))) say("    " + place);
    else
      say_part((line.starts_with(" ") ? line : wrapped(line, "")) + "\n");
  return true;
}

}  // namespace bellows
