#include "trainer/log/progress_bar.h"
#include <fmt/format.h>
#include <algorithm>

namespace bellows {

// 4300 becomes "4.3k".
static std::string short_number(double value) {
  if (value >= 1e6) return fmt::format("{:.1f}M", value / 1e6);
  return value >= 1e3 ? fmt::format("{:.1f}k", value / 1e3) : fmt::format("{:.1f}", value);
}

static std::string minutes(double seconds) {
  const std::string text = clock_text(seconds);
  return text.starts_with("00:") ? text.substr(3) : text;
}

static std::string cells(double share, int width) {
  const int tenths = static_cast<int>(share * width * 10);
  std::string bar(tenths / 10, '#');
  if (tenths % 10 && tenths / 10 < width) bar += static_cast<char>('0' + tenths % 10);
  bar.resize(width, ' ');
  return bar;
}

std::string bar_line(const LogPoint& p, int64_t epochs, double elapsed_s, int width) {
  const double share = p.iters ? std::min(1.0, double(p.iter) / p.iters) : 0;
  const double rate = p.batch_cost > 0 ? 1 / p.batch_cost : 0;
  const double left = (p.iters - p.iter) * p.batch_cost;
  const std::string head = fmt::format("Train ep {}/{}: {:3.0f}%|", p.epoch, epochs, share * 100);
  const std::string tail =
      fmt::format("| {}/{} [{}<{}, {:.1f}it/s, loss={:.3g}, ips={}]", p.iter, p.iters,
                  minutes(elapsed_s), minutes(left), rate, p.loss, short_number(p.ips));
  const int room = width - static_cast<int>(head.size() + tail.size()) - 1;
  return head + cells(share, std::clamp(room, 1, 40)) + tail;
}

void ProgressBar::draw(const LogPoint& point, int64_t epochs, double elapsed_s) {
  line_.draw(bar_line(point, epochs, elapsed_s, line_.width()));
}

}  // namespace bellows
