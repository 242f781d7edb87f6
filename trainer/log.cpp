#include "trainer/log.h"
#include "core/trace.h"
#include "trainer/json.h"
#include "trainer/output.h"
#include "trainer/system.h"

namespace bellows {

Log::Log(const Plan& plan, const Path& folder, Voice voice)
    : options_(plan.log),
      epochs_(plan.train.epochs),
      voice_(voice),
      bar_(plan.log.progress && voice == Voice::lines) {
  if (folder.empty()) return;
  metrics_ = std::make_unique<LineWriter>(folder / "metrics.jsonl");
  if (options_.tensorboard) tensorboard_ = std::make_unique<TensorBoard>(folder);
}

void Log::line(const std::string& text) {
  if (voice_ == Voice::silent) return;
  bar_.clear();
  say(text);
}

void Log::record(const char* split, const Position& at, const Scalars& values) {
  Json json = {{"ts", wall_seconds()}, {"step", at.step}, {"epoch", at.epoch}, {"split", split}};
  for (const auto& [name, value] : values) json[name] = value;
  if (metrics_) metrics_->write(to_line(json));
  if (!tensorboard_) return;
  Scalars tagged;
  for (const auto& [name, value] : values)
    tagged.emplace_back(std::string(split) + "/" + name, value);
  tensorboard_->write(at.step, tagged);
}

void Log::window(const LogPoint& p, const Scalars& more) {
  Scalars values = {{"loss", p.loss},
                    {"lr", p.lr},
                    {"batch_cost", p.batch_cost},
                    {"reader_cost", p.reader_cost},
                    {"ips", p.ips}};
  values.insert(values.end(), more.begin(), more.end());
  record("train", {.epoch = p.epoch, .step = p.step}, values);
  if (!bar_.on()) line(log_line(p, options_.format));
}

void Log::progress(const LogPoint& point) {
  if (point.epoch != epoch_) {
    epoch_ = point.epoch;
    epoch_begin_ns_ = trace::now_ns();
  }
  bar_.draw(point, epochs_, (trace::now_ns() - epoch_begin_ns_) * 1e-9);
}

void Log::totals(const Position& at, const Scalars& values) { record("run", at, values); }

void Log::evaluation(const Position& at, const Metrics& metrics) {
  record("test", at, values_of(metrics));
  line(cat("eval: epoch: ", at.epoch, ", step: ", at.step, ", ", text_of(metrics)));
}

}  // namespace bellows
