// Padding of samples of varying length, and how unevenly they are shared among the ranks.
#pragma once
#include <algorithm>
#include <utility>
#include "core/base/statistics.h"
#include "core/base/trace.h"
#include "data/loader/batch.h"

namespace bellows {

class PaddingGauge {
 public:
  void add(const BatchCounts& counts) {
    trace::count<"data.positions">(counts.positions);
    trace::count<"data.padding">(counts.padding);
    window_.positions += counts.positions;
    window_.padding += counts.padding;
    window_.imbalance = std::max(window_.imbalance, counts.imbalance);
  }
  // Returns padding_share and token_imbalance (the worst round) since the last call; nothing if all
  // samples have one length.
  Scalars take() {
    const BatchCounts window = std::exchange(window_, {});
    if (window.positions == 0) return {};
    return {{"padding_share", double(window.padding) / double(window.positions)},
            {"token_imbalance", window.imbalance}};
  }

 private:
  BatchCounts window_;
};

}  // namespace bellows
