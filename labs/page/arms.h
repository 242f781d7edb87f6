// Arms, their times and ratios between them, for the pages of ab, ladder and sweep.
#pragma once
#include <string>
#include <vector>
#include "core/base/json.h"
#include "labs/page/html.h"

namespace bellows {

// Like Json::at(), which throws if there is none.
std::string text_of(const Json& object, const char* key);
double number_of(const Json& object, const char* key);
std::vector<double> numbers(const Json& list);  // NAN for what is no number

struct Ratio {
  double ratio, low, high, confidence;
  bool differs;  // beyond the noise of the placebo
  bool has_interval() const;
};
Ratio ratio_of(const Json& speedup);
std::string interval_text(const Ratio& ratio);
// A ratio among the numbers that begin a page. `note`: HTML, before the interval.
KeyNumber ratio_number(const std::string& name, const Json& speedup, const std::string& note = "");
double noise_of(const Json& report);  // a ratio: how far the placebo is from 1, or 1.01

// ms of each block, a lane for each process. `clock`: "wall" or "cpu".
using Lanes = std::vector<std::vector<double>>;
Lanes costs_ms(const Json& arm, const std::string& clock);
std::vector<double> all_of(const Lanes& lanes);
std::vector<double> wall_ms(const Json& arm);  // of all blocks
// Median and quartiles: "3.1 ms (3 to 3.2)".
std::string quartiles_text(const std::vector<double>& values, const char* unit = "ms");
// Joules of the GPU per step or per run, of all blocks. Empty if it has no meter.
std::vector<double> energies_j(const Json& arm);

// "<p>Before: a, b</p>"; "" without texts.
std::string listed(const Json& texts, const char* before);
std::string measurement(const Json& report);  // its command and its machine

}  // namespace bellows
