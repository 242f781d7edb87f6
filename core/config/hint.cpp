#include "core/config/hint.h"
#include <algorithm>
#include <numeric>
#include <utility>
#include "core/base/check.h"

namespace bellows {

static std::string last_word(const std::string& key) { return key.substr(key.rfind('.') + 1); }

// Levenshtein distance, computed row by row.
static size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

std::string nearest(const std::string& word, const std::vector<std::string>& known) {
  return *std::ranges::min_element(known, {}, [&](const std::string& key) {
    const bool begun = word.size() >= 3 && key.starts_with(word);
    const size_t whole = begun ? 0 : edit_distance(word, key);
    return std::pair(std::min(whole, 1 + edit_distance(last_word(word), last_word(key))), whole);
  });
}

bool is_like(const std::string& word, const std::string& key) {
  return edit_distance(last_word(word), last_word(key)) <= (last_word(word).size() + 1) / 2;
}

std::string hint(const std::string& of, const std::vector<std::string>& known) {
  const bool element = last_word(of).find_first_not_of("0123456789") == of.npos;
  const std::string key = element ? of.substr(0, of.rfind('.')) : of;
  const std::string place = key.substr(0, key.size() - last_word(key).size());
  for (const auto& [theirs, ours] : other_names()) {
    if (last_word(key) != theirs) continue;
    auto found = std::ranges::find(known, place + ours);  // same section first, then any
    if (found == known.end())
      found = std::ranges::find_if(known, [end = cat(".", ours)](const std::string& key) {
        return ("." + key).ends_with(end);
      });
    if (found != known.end()) return "it is called '" + *found + "' here";
  }
  const auto inside = [&](const std::string& other) { return other.starts_with(key + "."); };
  if (element && std::ranges::any_of(known, inside))
    return "because " + key + " is a map; trainer --print-config  prints its keys";
  const std::string near = nearest(key, known);
  if (!is_like(key, near))
    return "and no known key is like it; trainer --print-config  prints all keys";
  return "the nearest known key is '" + near + "'";
}

std::string on_one_line(const std::string& text) {
  std::string line = text.size() > 60 ? text.substr(0, 60) + "..." : text;
  std::ranges::replace_if(
      line, [](unsigned char c) { return c < ' '; }, ' ');
  return "'" + line + "'";
}

const std::vector<OtherName>& other_names() {
  static const std::vector<OtherName> names = {
      {"arch", "model.name"},
      {"architecture", "model.name"},
      {"base_lr", "lr"},
      {"batch", "batch_size"},
      {"betas", "beta1"},
      {"bs", "batch_size"},
      {"bucket_cap_mb", "dist.bucket_mb"},
      {"checkpoint_interval", "ckpt.every"},
      {"clip_grad", "clip_norm"},
      {"clip_grad_norm", "clip_norm"},
      {"criterion", "loss.name"},
      {"data_dir", "data.root"},
      {"data_path", "data.root"},
      {"data_root", "data.root"},
      {"dataset", "data.name"},
      {"dataset_root", "data.root"},
      {"detect_anomaly", "debug.anomaly"},
      {"early_stopping", "train.patience"},
      {"early_stopping_patience", "train.patience"},
      {"epoch", "epochs"},
      {"eta_min", "final_factor"},
      {"eval_batch_size", "eval.batch_size"},
      {"eval_interval", "eval.every"},
      {"exp_name", "name"},
      {"find_unused_parameters", "dist.find_unused"},
      {"grad_clip", "clip_norm"},
      {"gradient_clip_val", "clip_norm"},
      {"gradient_clipping", "clip_norm"},
      {"iters", "max_iters"},
      {"keep_checkpoint_max", "ckpt.keep"},
      {"kernel_size", "kernel"},
      {"l2_decay", "weight_decay"},
      {"learning_rate", "lr"},
      {"log_every_n_steps", "log.every"},
      {"log_interval", "log.every"},
      {"log_iter", "log.every"},
      {"log_iters", "log.every"},
      {"logging_steps", "log.every"},
      {"loss_fn", "loss.name"},
      {"lr_scheduler", "schedule.name"},
      {"manual_seed", "seed"},
      {"max_epochs", "epochs"},
      {"max_grad_norm", "clip_norm"},
      {"max_steps", "max_iters"},
      {"metric_for_best_model", "ckpt.best"},
      {"monitor", "ckpt.best"},
      {"network", "model.name"},
      {"num_epochs", "epochs"},
      {"num_iters", "max_iters"},
      {"num_train_epochs", "epochs"},
      {"optim", "optimizer.name"},
      {"out_channels", "out"},
      {"out_features", "out"},
      {"patience", "train.patience"},
      {"per_device_train_batch_size", "data.batch_size"},
      {"pretrained", "train.weights"},
      {"print_freq", "log.every"},
      {"random_seed", "seed"},
      {"run_name", "name"},
      {"samples_per_gpu", "data.batch_size"},
      {"save_best", "ckpt.best"},
      {"save_best_only", "ckpt.best"},
      {"save_interval", "ckpt.every"},
      {"save_steps", "ckpt.every_iters"},
      {"save_top_k", "ckpt.keep"},
      {"save_total_limit", "ckpt.keep"},
      {"scheduler", "schedule.name"},
      {"snapshot_epoch", "ckpt.every"},
      {"total_iters", "max_iters"},
      {"train_batch_size", "data.batch_size"},
      {"val_interval", "eval.every"},
      {"warmup_steps", "warmup_updates"},
      {"wd", "weight_decay"},
  };
  return names;
}

}  // namespace bellows
