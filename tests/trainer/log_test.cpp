// Log lines, meters and event files, in the forms that Paddle, tqdm and TensorBoard use.
#include "trainer/log/log.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include "core/base/crc32c.h"
#include "core/base/json.h"
#include "trainer/log/log_line.h"
#include "trainer/log/meter.h"
#include "trainer/log/tensorboard.h"

using namespace bellows;

namespace {
int64_t now_ns = 0;
int64_t test_clock() { return now_ns; }
void pass(double seconds) { now_ns += static_cast<int64_t>(seconds * 1e9); }
}  // namespace

TEST(LogLine, HasPaddlesFormat) {
  // The line that the project has to print: batch 4, 0.484174 s per iteration, 480 iterations left.
  now_ns = 0;
  Meter meter(test_clock);
  for (int i = 0; i < 20; ++i) {
    pass(0.23764);
    meter.lap(Phase::load);
    pass(0.484174 - 0.23764);
    meter.lap(Phase::step);
    meter.count(4);
  }
  const Meter::Window window = meter.take();
  const LogPoint point{.epoch = 1,
                       .iter = 20,
                       .iters = 500,
                       .step = 20,
                       .loss = 1.7898,
                       .lr = 0.009657,
                       .batch_cost = window.batch_cost,
                       .reader_cost = window.reader_cost,
                       .ips = window.ips,
                       .eta_s = 480 * window.batch_cost};
  EXPECT_EQ(log_line(point, LogFormat::paddle),
            "epoch: 1, iter: 20/500, loss: 1.7898, lr: 0.009657, batch_cost: 0.4842, reader_cost: "
            "0.23764, ips: 8.2615 samples/sec | ETA 00:03:52");
}

TEST(LogLine, EndsWithTheUnitOfTheDataSetAndWhatWasLeftOutOfIt) {
  LogPoint point{.loss = 0.1, .lr = std::nan(""), .nonfinite_losses = 3, .unit = "images"};
  EXPECT_TRUE(log_line(point, LogFormat::paddle)
                  .ends_with(" images/sec | ETA 00:00:00, non-finite losses: 3"));
  point.skipped_updates = 20;
  for (const LogFormat format : {LogFormat::paddle, LogFormat::plain})
    EXPECT_TRUE(log_line(point, format).ends_with(", non-finite losses: 3, skipped updates: 20"));
  const Json json = Json::parse(log_line(point, LogFormat::json));
  EXPECT_EQ(json["nonfinite_losses"], 3);
  EXPECT_EQ(json["skipped_updates"], 20);
  EXPECT_EQ(json["loss"].get<double>(), 0.1) << "with full precision";
  EXPECT_TRUE(json["lr"].is_null());
  EXPECT_EQ(clock_text(100 * 3600 + 61), "100:01:01");
}

// The last batch is smaller: never batch size / average.
TEST(Meter, LeavesEvaluationAndSavingOutOfTheCostOfAnIteration) {
  now_ns = 0;
  Meter meter(test_clock);
  EXPECT_EQ(meter.take().ips, 0) << "of an empty window";
  for (const int64_t samples : {64, 64, 32}) {
    pass(1);
    meter.lap(Phase::step);
    meter.count(samples);
  }
  pass(5);
  meter.lap(Phase::eval);
  pass(3);
  meter.lap(Phase::save);
  const Meter::Window window = meter.take();
  EXPECT_DOUBLE_EQ(window.ips, 160 / 3.0);
  EXPECT_DOUBLE_EQ(window.batch_cost, 1);
  EXPECT_DOUBLE_EQ(meter.seconds(Phase::eval), 5);
  EXPECT_DOUBLE_EQ(meter.total_seconds(), 11);
}

TEST(ProgressBar, HasTqdmsFormat) {
  const LogPoint point{.epoch = 3,
                       .iter = 210,
                       .iters = 500,
                       .step = 1210,
                       .loss = 2.314,
                       .batch_cost = 1 / 16.9,
                       .ips = 4300};
  EXPECT_EQ(bar_line(point, 90, 12.3, 97),
            "Train ep 3/90:  42%|#########2            | 210/500 [00:12<00:17, 16.9it/s, "
            "loss=2.31, ips=4.3k]");
  const LogPoint unknown{.epoch = 3, .iter = 2, .iters = 500, .step = 2};
  EXPECT_TRUE(bar_line(unknown, 90, 12.3, 97).ends_with("| 2/500 [00:12<?, ?it/s]"));
  const LogPoint slow{.epoch = 3, .iter = 2, .iters = 12, .batch_cost = 16.5, .ips = 3.9};
  EXPECT_TRUE(bar_line(slow, 90, 33, 97).ends_with("[00:33<02:45, 16.50s/it, loss=?, ips=3.9]"));
  EXPECT_LT(bar_line(point, 90, 12.3, 40).size(), 90u);  // too narrow for a bar: one cell is left
}

// ---- TensorBoard, decoded without its library

static uint32_t masked(std::string_view bytes) {
  const uint32_t crc = crc32c(std::as_bytes(std::span(bytes)));
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}
template <class T> static T number(const std::string& bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

TEST(TensorBoard, FramesRecordsAsTfRecordDoes) {
  const std::string record = version_record(1.5);
  const auto length = number<uint64_t>(record, 0);
  ASSERT_EQ(record.size(), length + 16);
  EXPECT_EQ(number<uint32_t>(record, 8), masked(record.substr(0, 8)));
  EXPECT_EQ(number<uint32_t>(record, 12 + length), masked(record.substr(12, length)));
  // 1: double wall_time, 3: string file_version
  EXPECT_EQ(record.substr(12, 1) + record.substr(21, length - 9),
            "\x09\x1a\x0d"
            "brain.Event:2");
  EXPECT_EQ(number<double>(record, 13), 1.5);
}

TEST(TensorBoard, WritesStepTagAndValueAndMarksAResumeAsPyTorchsPurgeStepDoes) {
  const auto message = [](const std::string& record) {
    return record.substr(21, number<uint64_t>(record, 0) - 9);  // without the wall time
  };
  // 2: varint step 300, 5: Summary {1: Value {1: tag, 2: float}}
  const std::string value = std::string("\x0a\x0atrain/loss\x15") + std::string("\0\0\0\x3f", 4);
  EXPECT_EQ(message(scalars_record(2, 300, {{"train/loss", 0.5}})),
            std::string("\x10\xac\x02\x2a\x13\x0a\x11", 7) + value);
  // 2: varint step 300, 7: SessionLog {1: START}
  EXPECT_EQ(message(restart_record(2, 300)), std::string("\x10\xac\x02\x3a\x02\x08\x01", 7));
}
