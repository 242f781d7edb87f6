// A line chart of efficiency by number of ranks, as SVG.
#pragma once
#include <string>
#include <vector>

namespace bellows {

struct ScalingLine {
  std::string name;
  std::vector<double> efficiency = {};  // 0 to 1, for each number of ranks
};
// `ranks`: ascending; the axis is logarithmic. Returns a complete document. `title` and names may
// contain any characters.
std::string scaling_chart(const std::string& title, const std::vector<int64_t>& ranks,
                          const std::vector<ScalingLine>& lines);

}  // namespace bellows
