// trainer bench h2d: bytes per second to a GPU and back, from pinned and pageable memory.
#include "core/base/output.h"
#include "trainer/bench/bench.h"
#include "trainer/bench/copies.h"
#include "trainer/verbs/tables.h"

namespace bellows {

static int run(const Arguments& args) {
  CommandLine line = bench_line("h2d");
  if (!line.read(args)) return 0;
  const Device device = start_bench("cuda");
  std::vector<TableRow> rows;
  for (const int64_t kibibytes : {64, 1024, 16384, 262144}) {
    const std::vector<CopyRate> rates = device_rates(kibibytes << 10);
    if (rows.empty()) {
      rows.push_back({"bytes"});
      for (const CopyRate& rate : rates) rows[0].push_back(rate.what);
    }
    rows.push_back({kibibytes < 1024 ? cat(kibibytes, " KiB") : cat(kibibytes >> 10, " MiB")});
    for (const CopyRate& rate : rates) rows.back().push_back(rate_text(rate.bytes_per_s, "B/s"));
  }
  say(cat("copies on ", device_text(device), ", one behind the other; medians"));
  say_part(aligned(rows, "rrrrrr"));
  say("d2d counts what is read and what is written");
  return 0;
}

static const AddBench bench({"h2d", "GB/s to a GPU and back, from pinned and pageable memory",
                             "trainer bench h2d", run});

}  // namespace bellows
