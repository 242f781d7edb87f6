#include "core/config/config.h"
#include <fmt/format.h>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include "core/base/file.h"
#include "core/config/yaml.h"

namespace bellows {

namespace fs = std::filesystem;

// Removes `base` from the file's values and returns it.
static std::vector<Value> take_bases(Values& values) {
  std::vector<Value> bases;
  if (const auto one = values.extract("base")) bases.push_back(one.mapped());
  for (size_t i = 0; const auto item = values.extract("base." + std::to_string(i)); ++i)
    bases.push_back(item.mapped());
  return bases;
}

// Reads the bases of a file and then the file. `chain`: files from the first one to this one.
static void read_onto(std::vector<Values>& all, std::vector<fs::path>& chain,
                      const std::string& path) {
  chain.emplace_back(path);
  Values values = read_yaml(path);
  for (const Value& base : take_bases(values)) {
    const fs::path next = (fs::path(path).parent_path() / with_home(base.text)).lexically_normal();
    CHECK(kind_of(next, Exit::usage) != Kind::nothing, base.origin, ": base ", next.string(),
          " does not exist");
    const auto is_next = [&](const fs::path& file) {
      std::error_code apart;
      return fs::equivalent(file, next, apart);
    };
    CHECK(std::ranges::none_of(chain, is_next), base.origin, ": base ", next.string(),
          " is, in the end, based on this file");
    CHECK(all.size() + chain.size() < kConfigFiles, base.origin, ": more than ", kConfigFiles,
          " files");
    read_onto(all, chain, next);
  }
  all.push_back(std::move(values));
  chain.pop_back();
}

std::string with_home(const std::string& path) {
  const char* const home = std::getenv("HOME");
  return home && path.starts_with("~/") ? home + path.substr(1) : path;
}

std::vector<Values> read_config(const std::string& path) {
  std::vector<Values> all;
  std::vector<fs::path> chain;
  read_onto(all, chain, path);
  return all;
}

Values parse_overrides(const std::vector<std::string>& assignments) {
  Values all;
  for (const std::string& assignment : assignments)
    for (const auto& [key, value] : parse_override(assignment))
      CHECK(all.emplace(key, value).second, "command line: '", key, "' is given twice");
  return all;
}

std::vector<Values> read_sources(const std::string& path,
                                 const std::vector<std::string>& assignments) {
  std::vector<Values> sources;
  if (!path.empty()) sources = read_config(path);
  sources.push_back(parse_overrides(assignments));
  return sources;
}

void write_extension(const std::string& file, const std::string& base,
                     const std::vector<ConfigLine>& settings, const std::string& head) {
  std::error_code error;
  const Path folder = Path(file).has_parent_path() ? Path(file).parent_path() : Path(".");
  const Path from = std::filesystem::proximate(base, folder, error);
  std::string text, toggles;
  std::istringstream lines(head);
  for (std::string line; std::getline(lines, line);) text += cat("# ", line, "\n");
  text += cat("base: ", yaml((error ? Path(base) : from).string()), "\n");
  for (const auto& [key, value, note] : settings) {
    const bool toggle = key.starts_with("toggles.");
    const std::string line = cat(toggle ? "  " + key.substr(8) : key, ": ", value);
    (toggle ? toggles : text) +=
        note.empty() ? line + "\n" : fmt::format("{:<32} # {}\n", line, note);
  }
  write_file(file, bytes_of(toggles.empty() ? text : cat(text, "toggles:\n", toggles)));
}

}  // namespace bellows
