#include "toggles/hint.h"
#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace bellows {

// Letters to insert, delete or replace to get from a to b, row by row of the usual table.
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

static std::string last_word(const std::string& key) { return key.substr(key.rfind('.') + 1); }

// A key in the wrong section counts as one mistake, so `lr` finds `optimizer.lr`.
std::string nearest(const std::string& word, const std::vector<std::string>& known) {
  return *std::ranges::min_element(known, {}, [&](const std::string& key) {
    const size_t whole = edit_distance(word, key);
    return std::pair(std::min(whole, 1 + edit_distance(last_word(word), last_word(key))), whole);
  });
}

static bool ends_in(const std::string& key, const std::string& end) {
  return key == end || key.ends_with("." + end);
}

std::string hint(const std::string& key, const std::vector<std::string>& known) {
  for (const auto& [theirs, ours] : other_names()) {
    if (last_word(key) != theirs) continue;
    const auto found =
        std::ranges::find_if(known, [end = ours](const auto& k) { return ends_in(k, end); });
    if (found != known.end()) return "it is called '" + *found + "' here";
  }
  return "the nearest known key is '" + nearest(key, known) + "'";
}

std::string on_one_line(const std::string& text) {
  std::string line = text.size() > 60 ? text.substr(0, 60) + "..." : text;
  std::ranges::replace_if(
      line, [](unsigned char c) { return c < ' '; }, ' ');
  return "'" + line + "'";
}

const std::vector<OtherName>& other_names() {
  static const std::vector<OtherName> names = {
      {"accum_iter", "toggles.gradient_accumulation"},
      {"accumulate_grad_batches", "toggles.gradient_accumulation"},
      {"arch", "model.name"},
      {"base_lr", "lr"},
      {"batch_size", "batch"},
      {"bs", "batch"},
      {"data_dir", "data.root"},
      {"data_path", "data.root"},
      {"dataset", "data.name"},
      {"dataset_root", "data.root"},
      {"epoch", "epochs"},
      {"eval_interval", "eval.every"},
      {"fp16", "toggles.amp"},
      {"gradient_accumulation_steps", "toggles.gradient_accumulation"},
      {"gradient_clip_val", "clip_norm"},
      {"iters", "steps"},
      {"l2_decay", "weight_decay"},
      {"learning_rate", "lr"},
      {"log_interval", "log.every"},
      {"log_iter", "log.every"},
      {"log_iters", "log.every"},
      {"logging_steps", "log.every"},
      {"lr_scheduler", "schedule.name"},
      {"manual_seed", "seed"},
      {"max_epochs", "epochs"},
      {"max_grad_norm", "clip_norm"},
      {"max_iters", "steps"},
      {"max_steps", "steps"},
      {"mixed_precision", "toggles.amp"},
      {"num_epochs", "epochs"},
      {"num_iters", "steps"},
      {"optim", "optimizer.name"},
      {"output_dir", "run.dir"},
      {"precision", "toggles.amp"},
      {"print_freq", "log.every"},
      {"random_seed", "seed"},
      {"save_dir", "run.dir"},
      {"save_interval", "ckpt.every"},
      {"save_steps", "ckpt.every"},
      {"scheduler", "schedule.name"},
      {"use_amp", "toggles.amp"},
      {"wd", "weight_decay"},
      {"work_dir", "run.dir"},
      {"workers", "toggles.num_workers"},
  };
  return names;
}

}  // namespace bellows
