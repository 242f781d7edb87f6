// Sets options as a config would: by key, as text.
#pragma once
#include <gtest/gtest.h>
#include <map>
#include "core/config/visitor.h"
#include "data/sets/dataset.h"
#include "tests/temp_folder.h"

namespace bellows {

using Texts = std::map<std::string, std::string>;

class SetOptions : public Visitor {
 public:
  explicit SetOptions(Texts values) : values_(std::move(values)) {}
  ~SetOptions() override { EXPECT_TRUE(values_.empty()) << "no option " << values_.begin()->first; }

 protected:
  void option(const std::string& key, const Option& option, const char*) override {
    const auto found = values_.find(key);
    if (found == values_.end()) return;
    EXPECT_TRUE(option.read(found->second)) << key;
    values_.erase(found);
  }
  // Reads the size of a list from the value of its key.
  std::optional<size_t> list_size(const std::string& key, size_t, const char*) override {
    const auto found = values_.find(key);
    if (found == values_.end()) return {};
    const size_t size = std::stoul(found->second);
    values_.erase(found);
    return size;
  }

 private:
  Texts values_;
};

// Returns the registered entry `name` with `options` set.
template <class AChoice> AChoice chosen(const std::string& name, const Texts& options = {}) {
  AChoice choice(name);
  SetOptions set(options);
  choice.visit_options(set);
  return choice;
}

// Returns the data set of the shards in a folder.
inline DatasetPtr open_packed(const TempFolder& folder, Split split = Split::train) {
  return chosen<DatasetChoice>("packed", {{"folder", folder.path}}).make({split});
}

}  // namespace bellows
