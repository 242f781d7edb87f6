// trainer bench h2d: bytes a second to a GPU and back, from memory of either kind.
#include <fmt/format.h>
#include "core/device_info.h"
#include "trainer/bench/bench.h"
#include "trainer/bench/copies.h"
#include "trainer/bench/timing.h"
#include "trainer/output.h"
#include "trainer/tables.h"

namespace bellows {

static std::string size_text(int64_t bytes) {
  return bytes >= 1 << 20 ? cat(bytes >> 20, " MiB") : cat(bytes >> 10, " KiB");
}

static int run(const Arguments& args) {
  CommandLine line = bench_line("h2d");
  if (!line.read(args)) return 0;
  if (device_count(Device::cuda) == 0)
    fail(Exit::usage, "bench h2d: nowhere to copy to: ", cuda_trouble(cuda_report()));
  const Device device = start_bench("cuda");
  std::vector<TableRow> rows;
  for (const int64_t bytes : {int64_t(64) << 10, int64_t(1) << 20, int64_t(16) << 20, int64_t(256) << 20}) {
    const std::vector<CopyRate> rates = device_rates(bytes);
    if (rows.empty()) {
      rows.push_back({"bytes"});
      for (const CopyRate& rate : rates) rows[0].push_back(rate.what);
    }
    rows.push_back({size_text(bytes)});
    for (const CopyRate& rate : rates)
      rows.back().push_back(rate_text(rate.bytes_per_s, "B/s"));
  }
  say(cat("copies on ", device_text(device), ", one behind the other; medians"));
  say_part(aligned(rows, "rrrrrr"));
  say("d2d counts what is read and what is written");
  return 0;
}

static const AddBench bench({"h2d", "GB/s to a GPU and back, from pinned and pageable memory",
                             "trainer bench h2d", run});

}  // namespace bellows
