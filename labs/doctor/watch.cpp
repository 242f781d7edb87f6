// trainer doctor --watch: the load of the machine each second, beside the costs of a run.
#include <fmt/format.h>
#include <chrono>
#include <fstream>
#include <thread>
#include "core/base/file.h"
#include "core/base/output.h"
#include "labs/doctor/doctor.h"
#include "trainer/log/meter.h"
#include "trainer/log/nvml.h"
#include "trainer/run/signals.h"

namespace bellows {

// Returns the last row of training that the run has logged; null if there is none yet.
static Json last_row(const Path& metrics) {
  std::ifstream file(metrics, std::ios::binary);
  constexpr std::streamoff kTail = 1 << 16;  // some hundred rows
  file.seekg(0, std::ios::end);
  file.seekg(std::max<std::streamoff>(0, std::streamoff(file.tellg()) - kTail));
  Json row;
  for (std::string line; std::getline(file, line);)
    if (Json now = parse_json(line); now.is_object() && now.value("split", Json()) == "train")
      row = std::move(now);
  return row;
}

static std::string number(const Json& row, const char* key, double factor, int digits) {
  return row.is_object() && row.contains(key) && row[key].is_number()
             ? fmt::format("{:.{}f}", factor * row[key].get<double>(), digits)
             : "-";
}

static std::string watch_line(const MachineLoad& load, const std::optional<GpuLoad>& gpu,
                              const Json& row) {
  constexpr double kGib = 1 << 30, kMb = 1e6;
  std::string line = fmt::format("{:>5.0f} {:>8.1f} {:>9.1f} ", 100 * load.cpu(),
                                 load.memory_bytes / kGib, load.disk_bytes_per_s / kMb);
  line += gpu ? fmt::format("{:>5.0f} {:>8.1f} {:>6.0f} ", 100 * gpu->utilization,
                            gpu->memory_bytes / kGib, gpu->power_w)
              : fmt::format("{:>5} {:>8} {:>6} ", "-", "-", "-");
  return line + fmt::format("{:>8} {:>9} {:>10}", number(row, "step", 1, 0),
                            number(row, "batch_cost", 1e3, 2), number(row, "reader_cost", 1e3, 2));
}

int watch_machine(const std::string& run, int64_t lines) {
  const Path metrics = run.empty() ? Path() : Path(run) / "metrics.jsonl";
  CHECK(run.empty() || kind_of(metrics, Exit::usage) == Kind::file, "doctor: ", run,
        ": not a run folder, it has no metrics.jsonl");
  const std::optional<Nvml> nvml = open_nvml(Device::cuda);
  Signals signals;
  LoadMeter meter;
  for (int64_t shown = 0; shown < lines || lines == 0;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (signals.stop()) return 128 + signals.stop();
    const std::optional<MachineLoad> load = meter.next();
    if (!load) continue;
    if (output_error()) return 0;  // the reader has closed the pipe
    constexpr int64_t kRowsPerHeader = 20;
    if (shown++ % kRowsPerHeader == 0)
      say("cpu %  RAM GiB  disk MB/s gpu %  gpu GiB      W     step  batch ms  reader ms");
    say(watch_line(*load, nvml ? nvml->read() : std::nullopt,
                   metrics.empty() ? Json() : last_row(metrics)));
  }
  return 0;
}

}  // namespace bellows
