#include "trainer/log/log_line.h"
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <algorithm>
#include <nlohmann/json.hpp>
#include "core/base/json.h"
#include "core/base/output.h"
#include "core/base/trace.h"

namespace bellows {

std::string clock_text(double seconds) {
  const auto s = int64_t(std::clamp(seconds, 0.0, 1e9));
  return fmt::format("{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

static std::string troubles(const LogPoint& p) {
  std::string text;
  for (const auto& [count, what] : {std::pair(p.nonfinite_losses, "non-finite losses"),
                                    std::pair(p.skipped_updates, "skipped updates")})
    if (count) text += fmt::format(", {}: {}", what, count);
  return text;
}

std::string log_line(const LogPoint& p, LogFormat format) {
  if (format == LogFormat::json)
    return to_line({{"epoch", p.epoch},
                    {"iter", p.iter},
                    {"iters", p.iters},
                    {"step", p.step},
                    {"loss", p.loss},
                    {"nonfinite_losses", p.nonfinite_losses},
                    {"skipped_updates", p.skipped_updates},
                    {"lr", p.lr},
                    {"batch_cost", p.batch_cost},
                    {"reader_cost", p.reader_cost},
                    {"ips", p.ips},
                    {"unit", p.unit},
                    {"eta_s", p.eta_s}});
  if (format == LogFormat::plain)
    return fmt::format("epoch {} step {} loss {:.4f} lr {:.3g} {:.1f} {}/s{}", p.epoch, p.step,
                       p.loss, p.lr, p.ips, p.unit, troubles(p));
  return fmt::format(
      "epoch: {}, iter: {}/{}, loss: {:.4f}, lr: {:.6f}, batch_cost: {:.4f}, reader_cost: {:.5f}, "
      "ips: {:.4f} {}/sec | ETA {}{}",
      p.epoch, p.iter, p.iters, p.loss, p.lr, p.batch_cost, p.reader_cost, p.ips, p.unit,
      clock_text(p.eta_s), troubles(p));
}

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

static std::string rate_text(double batch_cost) {
  return batch_cost > 1 ? fmt::format("{:.2f}s/it", batch_cost)
                        : fmt::format("{:.1f}it/s", 1 / batch_cost);
}

std::string bar_line(const LogPoint& p, int64_t epochs, double elapsed_s, int width) {
  const double share = p.iters ? std::min(1.0, double(p.iter) / p.iters) : 0;
  const std::string done = fmt::format("| {}/{} [{}<", p.iter, p.iters, minutes(elapsed_s));
  const std::string head = fmt::format("Train ep {}/{}: {:3.0f}%|", p.epoch, epochs, share * 100);
  const std::string tail =
      done +
      (p.batch_cost > 0
           ? fmt::format("{}, {}, loss={}, ips={}]", minutes((p.iters - p.iter) * p.batch_cost),
                         rate_text(p.batch_cost), p.loss != 0 ? fmt::format("{:.3g}", p.loss) : "?",
                         short_number(p.ips))
           : "?, ?it/s]");
  const int room = width - static_cast<int>(head.size() + tail.size()) - 1;
  return head + cells(share, std::clamp(room, 1, 40)) + tail;
}

// ---- the line of a terminal

LiveLine::LiveLine(bool wanted) : on_(wanted && on_terminal()) {}

bool LiveLine::due() const { return on_ && trace::now_ns() - drawn_ns_ > 100'000'000; }

int LiveLine::width() const {
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void LiveLine::draw(const std::string& text) {
  if (!on_) return;
  const auto room = size_t(width() - 1);  // a line as wide as the terminal would make it scroll
  redraw(text.substr(0, room));
  drawn_ = true;
  drawn_ns_ = trace::now_ns();
}

void LiveLine::clear() {
  if (drawn_) redraw("");
  drawn_ = false;
}

}  // namespace bellows
