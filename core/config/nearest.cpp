#include "core/config/nearest.h"
#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace bellows {

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

// Returns whether `word` is the beginning of `key`.
static bool is_begun(const std::string& word, const std::string& key) {
  return word.size() >= 3 && key.starts_with(word);
}

static std::string last_word(const std::string& key) { return key.substr(key.rfind('.') + 1); }

std::string nearest(const std::string& word, const std::vector<std::string>& known) {
  return *std::ranges::min_element(known, {}, [&](const std::string& key) {
    const size_t whole = is_begun(word, key) ? 0 : edit_distance(word, key);
    return std::pair(std::min(whole, 1 + edit_distance(last_word(word), last_word(key))), whole);
  });
}

}  // namespace bellows
