#include "trainer/log/log.h"
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include "core/base/json.h"
#include "core/base/output.h"
#include "core/base/round.h"
#include "core/base/trace.h"
#include "core/base/words.h"
#include "core/tensor/copy.h"
#include "data/images/image_file.h"
#include "plan/plan.h"
#include "trainer/log/system.h"

namespace bellows {

void print_line(LogFormat format, const std::string& text) {
  say(format == LogFormat::json ? to_line({{"message", text}}) : text);
}

// True for a row that the resumed run writes again: a row after from.step, the evaluation at
// from.step unless from.evaluated is that step, and the totals of an earlier end. Rows that Log did
// not write are kept.
static bool is_repeated(const std::string& line, const Position& from) {
  const Json row = parse_json(line);
  if (!row.is_object()) return false;
  const auto step = row.find("step"), split = row.find("split");
  if (step == row.end() || split == row.end() || !step->is_number_integer()) return false;
  const auto at = step->get<int64_t>();
  return at > from.step || *split == "run" ||
         (*split == "test" && at == from.step && from.evaluated != at);
}

// Returns the number of dropped rows.
static int64_t drop_rows_after(const Position& from, const Path& metrics_jsonl) {
  constexpr int64_t kLargest = int64_t{1} << 30;
  std::error_code error;
  if (!std::filesystem::exists(metrics_jsonl, error)) return 0;
  std::istringstream lines(read_file(metrics_jsonl, kLargest, Exit::storage));
  std::string kept;
  int64_t dropped = 0;
  // A last line without its newline is incomplete; LineWriter would have removed it.
  for (std::string line; std::getline(lines, line) && !lines.eof();)
    if (is_repeated(line, from))
      ++dropped;
    else
      kept += line + "\n";
  if (dropped) write_file(metrics_jsonl, bytes_of(kept));
  return dropped;
}

Log::Log(const Plan& plan, const Path& folder, LogOutput voice, const Position& from)
    : options_(plan.log),
      folder_(folder),
      epochs_(plan.train.epochs),
      voice_(voice),
      bar_(plan.log.progress && voice == LogOutput::lines && plan.log.format != LogFormat::json) {
  if (folder.empty()) return;
  const Path metrics = folder / "metrics.jsonl";
  if (const int64_t dropped = drop_rows_after(from, metrics))
    line(cat("metrics.jsonl: dropped ", count_of(dropped, "row"), " after step ", from.step,
             ", which this run writes again"));
  metrics_ = std::make_unique<LineWriter>(metrics);
  if (options_.tensorboard) tensorboard_ = std::make_unique<TensorBoard>(folder, from.step);
}

void Log::line(const std::string& text) {
  if (voice_ == LogOutput::silent) return;
  bar_.clear();
  print_line(options_.format, text);
}

std::vector<uint8_t> batch_picture(const Tensor& x) {
  constexpr int64_t kMostImages = 64;
  const Tensor images = contiguous(cast(to(Device::cpu, x), DType::f32));
  const auto values = images.data<float>();
  const auto [least, most] = std::ranges::minmax(values);
  const float scale = most > least ? 255 / (most - least) : 0;

  const int64_t C = x.dim(1), H = x.dim(2), W = x.dim(3), shown = std::min(x.dim(0), kMostImages);
  const auto columns = static_cast<int64_t>(std::ceil(std::sqrt(double(shown))));
  const int64_t rows = ceil_div(shown, columns);
  const int64_t height = rows * (H + 1) + 1, width = columns * (W + 1) + 1;
  std::vector<uint8_t> pixels(height * width * 3);
  for (int64_t n = 0; n < shown; ++n)
    for (int64_t i = 0; i < 3 * H * W; ++i) {
      const int64_t c = i % 3, column = i / 3 % W, row = i / 3 / W;
      const float value = values[((n * C + (C < 3 ? 0 : c)) * H + row) * W + column];
      const int64_t py = n / columns * (H + 1) + 1 + row, px = n % columns * (W + 1) + 1 + column;
      pixels[(py * width + px) * 3 + c] =
          static_cast<uint8_t>(std::lround((value - least) * scale));
    }
  return encode_png(pixels.data(), height, width);
}

void Log::batch(const Tensor& x, int64_t step) {
  if (folder_.empty() || options_.pictures_every == 0 || step % options_.pictures_every) return;
  if (x.rank() != 4) return;  // not a batch of images
  const int64_t begin = trace::now_ns();
  const SyncGuard expected(OnSync::ignore);
  const Path pictures = folder_ / "pictures";
  make_folders(pictures);
  const std::vector<uint8_t> png = batch_picture(x);
  write_file(pictures / fmt::format("step_{:08d}.png", step), std::as_bytes(std::span(png)));
  trace::count<"log.pictures">();
  trace::count<"log.picture_ns">(trace::now_ns() - begin);
}

std::string Log::record(const char* split, const Position& at, const Scalars& values,
                        const ScalarLists& lists) {
  Json json = {{"ts", wall_seconds()}, {"step", at.step}, {"epoch", at.epoch}, {"split", split}};
  Scalars tagged;
  for (const auto& [name, value] : values) {
    json[name] = value;
    tagged.emplace_back(cat(split, "/", name), value);
  }
  for (const auto& [name, list] : lists) json[name] = list;
  const std::string row = to_line(json);
  if (metrics_) metrics_->write(row);
  if (tensorboard_) tensorboard_->write(at.step, tagged);
  return row;
}

void Log::window(const LogPoint& p, const Scalars& more, const ScalarLists& lists) {
  Scalars values = {{"loss", p.loss},
                    {"lr", p.lr},
                    {"batch_cost", p.batch_cost},
                    {"reader_cost", p.reader_cost},
                    {"ips", p.ips}};
  values.insert(values.end(), more.begin(), more.end());
  record("train", {.epoch = p.epoch, .step = p.step}, values, lists);
  if (!bar_.on() && voice_ == LogOutput::lines) say(log_line(p, options_.format));
}

void Log::epoch(const Position& at) {
  if (bar_.on() && !at.of_epoch.empty())
    line(fmt::format("train: epoch: {}, step: {}, loss: {:.4f}", at.epoch, at.step,
                     at.of_epoch.mean()));
}

void Log::progress(const LogPoint& point) {
  if (point.epoch != epoch_) {
    epoch_ = point.epoch;
    epoch_begin_ns_ = trace::now_ns();
  }
  const double elapsed_s = (trace::now_ns() - epoch_begin_ns_) * 1e-9;
  bar_.draw(bar_line(point, epochs_, elapsed_s, bar_.width()));
}

void Log::totals(const Position& at, const Scalars& values) { record("run", at, values); }

void Log::evaluation(const Position& at, const Metrics& metrics) {
  const std::string row = record("test", at, metrics.values);
  if (options_.format != LogFormat::json)
    line(cat("eval: epoch: ", at.epoch, ", step: ", at.step, ", ", to_text(metrics)));
  else if (voice_ == LogOutput::lines)
    say(row);
}

}  // namespace bellows
