// Writes TensorBoard event files: TFRecord framing around protobuf messages, without their
// libraries.
//
//   record = u64 length, u32 masked crc of the length, message, u32 masked crc of the message
//   Event {1: double wall_time, 2: int64 step, 3: string file_version, 5: Summary {1: Value},
//          7: SessionLog {1: status, 1 is START}}
//   Value {1: string tag, 2: float simple_value}
#pragma once
#include <cstdint>
#include <string>
#include "core/base/file.h"
#include "core/base/statistics.h"

namespace bellows {

// Returns the bytes of one record each, for the writer below and for tests.
std::string version_record(double wall_time);
std::string scalars_record(double wall_time, int64_t step, const Scalars& scalars);
// Makes TensorBoard discard events of earlier files in the folder from `step` on.
std::string restart_record(double wall_time, int64_t step);

// Appends to a new file events.out.tfevents.<time>.<host>.<pid>.<n> in `folder`. Each write is
// flushed, so a killed run loses no logged value. Throws Error (exit 8).
class TensorBoard {
 public:
  // `from`: last step before this run; later events of earlier files are discarded.
  TensorBoard(const Path& folder, int64_t from);
  void write(int64_t step, const Scalars& scalars);

 private:
  void append(const std::string& record);
  Path path_;
  Descriptor file_;
};

}  // namespace bellows
