// Sets options as a config would: by key, as text.
#pragma once
#include <map>
#include "core/config/values.h"
#include "data/sets/dataset.h"
#include "tests/temp_folder.h"

namespace bellows {

using Texts = std::map<std::string, std::string>;

// Returns the registered entry `name` with `options` set.
template <class AChoice> AChoice chosen(const std::string& name, const Texts& options = {}) {
  AChoice choice(name);
  Values values;
  for (const auto& [key, text] : options) values[key] = {text, "test"};
  Load load(values);
  choice.visit_options(load);
  load.refuse_unknown();
  return choice;
}

inline DatasetPtr make(const std::string& name, Split split, const Texts& options) {
  return chosen<DatasetChoice>(name, options).make({split});
}

// Returns the data set of the shards in a folder.
inline DatasetPtr open_packed(const TempFolder& folder, Split split = Split::train) {
  return make("packed", split, {{"folder", folder.path}});
}

}  // namespace bellows
