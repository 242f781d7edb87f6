#include "trainer/log/log_line.h"
#include <fmt/format.h>
#include <algorithm>
#include "core/base/json.h"

namespace bellows {

std::string clock_text(double seconds) {
  const auto s = static_cast<int64_t>(std::clamp(seconds, 0.0, 1e9));
  return fmt::format("{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

static std::string paddle_line(const LogPoint& p) {
  return fmt::format(
      "epoch: {}, iter: {}/{}, loss: {:.4f}, lr: {:.6f}, batch_cost: {:.4f}, reader_cost: {:.5f}, "
      "ips: {:.4f} {}/sec | ETA {}",
      p.epoch, p.iter, p.iters, p.loss, p.lr, p.batch_cost, p.reader_cost, p.ips, p.unit,
      clock_text(p.eta_s));
}

static std::string plain_line(const LogPoint& p) {
  return fmt::format("epoch {} step {} loss {:.4f} lr {:.3g} {:.1f} {}/s", p.epoch, p.step, p.loss,
                     p.lr, p.ips, p.unit);
}

static std::string json_line(const LogPoint& p) {
  return to_line({{"epoch", p.epoch},
                  {"iter", p.iter},
                  {"iters", p.iters},
                  {"step", p.step},
                  {"loss", p.loss},
                  {"lr", p.lr},
                  {"batch_cost", p.batch_cost},
                  {"reader_cost", p.reader_cost},
                  {"ips", p.ips},
                  {"unit", p.unit},
                  {"eta_s", p.eta_s}});
}

std::string log_line(const LogPoint& point, LogFormat format) {
  switch (format) {
    case LogFormat::paddle:
      return paddle_line(point);
    case LogFormat::json:
      return json_line(point);
    case LogFormat::plain:
      break;
  }
  return plain_line(point);
}

}  // namespace bellows
