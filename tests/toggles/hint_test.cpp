// Names from other frameworks lead to keys that exist.
#include "core/config/hint.h"
#include <gtest/gtest.h>
#include <algorithm>
#include "core/config/choice.h"
#include "plan/toggle.h"
#include "tests/refusal.h"

using namespace bellows;

static std::map<std::string, Names> all_keys() {
  std::map<std::string, Names> keys;
  for (const char* dataset : {"digits", "mnist"})
    for (const auto& [key, marks] : marks_of(load(Plan{}, {{"data.name", {dataset}},
                                                           {"optimizer.name", {"adam"}},
                                                           {"schedule.name", {"cosine"}},
                                                           {"model.name", {"layers"}},
                                                           {"model.layers.0.name", {"conv2d"}},
                                                           {"model.layers.1.name", {"linear"}}})))
      keys[key] = marks.elsewhere;
  return keys;
}

// One name, one meaning: options with the same name elsewhere have the same name here.
TEST(Hint, LeadsFromEachOtherNameToOneKeyOfTheProductAndToNoToggle) {
  const auto keys = all_keys();
  std::map<std::string, std::string> ours;
  for (const auto& [key, elsewhere] : keys) {
    const std::string end = key.substr(key.rfind('.') + 1);
    for (const std::string& name : elsewhere) {
      EXPECT_FALSE(keys.contains(name)) << name << " is a key of ours";
      EXPECT_EQ(find_toggle(name), nullptr) << name << " is " << key;
      EXPECT_EQ(ours.emplace(name, end).first->second, end) << name;
    }
  }
  EXPECT_GT(ours.size(), 60);
}

TEST(Hint, LeadsFromEachOtherNameOfAnEntryToOneThatExists) {
  std::set<std::string> all;
  const Names sets = DatasetChoice::names();
  EXPECT_GT(entry_names().size(), 5u);
  for (const auto& [ours, theirs] : entry_names()) {
    EXPECT_TRUE(std::ranges::count(sets, ours)) << ours;
    for (const std::string& name : theirs) {
      EXPECT_FALSE(std::ranges::count(sets, name)) << name;
      EXPECT_TRUE(all.insert(name).second) << name << " stands for two";
      EXPECT_EQ(remedy(name, cat("other or ", ours)), cat("; the nearest one is '", ours, "'"));
    }
  }
}

TEST(Hint, FindsAKeyInAnotherSection) {
  const auto keys = all_keys();
  EXPECT_EQ(hint("learning_rate", keys), "it is called 'optimizer.lr' here");
  EXPECT_EQ(hint("lr", keys), "the nearest known key is 'optimizer.lr'");
  EXPECT_EQ(hint("batch_size", keys), "the nearest known key is 'data.batch_size'");
  EXPECT_EQ(hint("train.early_stopping_patience", keys), "it is called 'train.patience' here");
  EXPECT_EQ(hint("model.layers.0.kernel_size", keys), "it is called 'model.layers.0.kernel' here");
  EXPECT_EQ(hint("model.layers.1.out_features", keys), "it is called 'model.layers.1.out' here")
      << "that of its own item";
  EXPECT_EQ(hint("optimizer.weigth_decay", keys),
            "the nearest known key is 'optimizer.weight_decay'");
  EXPECT_EQ(hint("train.grad_clip", keys), "it is called 'optimizer.clip_norm' here");
  EXPECT_EQ(hint("optimizer.0", keys),
            "because optimizer is a map; trainer --print-config  prints its keys");
  EXPECT_EQ(nearest("resnet", {"lenet", "resnet18", "resnet50"}), "resnet18");
  EXPECT_EQ(hint("save_dir", keys),
            "and no known key is like it; trainer --print-config  prints all keys");
}

TEST(Hint, SaysHowTheMeaningDiffersElsewhere) {
  const auto said = [](const std::string& key) {
    return refusal([&] { make_config({{{key, {"3", "here"}}}}); });
  };
  const std::string unknown = "here: unknown key '",
                    horizon =
                        "', a schedule spans the whole run; set train.epochs or "
                        "train.max_iters",
                    beta = "', it is two keys of adam and adamw here, 'beta1' and 'beta2'",
                    splits =
                        "; elsewhere it multiplies the samples of an update, here it splits "
                        "data.batch_size; multiply that too";
  for (const std::string& key :
       Names{"schedule.T_max", "T_max", "total_steps", "schedule.total_steps"})
    EXPECT_EQ(said(key), unknown + key + horizon);
  for (const std::string& key : Names{"betas", "optimizer.betas", "optimizer.betas.0"})
    EXPECT_EQ(said(key), unknown + key + beta);
  for (const std::string& key : Names{"ignore_index", "loss.ignore_index"})
    EXPECT_EQ(said(key),
              unknown + key + "', every label counts; leave those samples out of the data set");
  for (const std::string& name : Names{"accumulate_grad_batches", "gradient_accumulation_steps"}) {
    for (const std::string& key : Names{name, "train." + name})
      EXPECT_EQ(
          said(key),
          unknown + key + "', it is a toggle; write  toggles: {gradient_accumulation: 3}" + splits);
    EXPECT_EQ(said("toggles." + name), "here: unknown toggle '" + name +
                                           "', it is called 'gradient_accumulation' here" + splits);
  }
}
