// trainer bench randperm: the order of an epoch, shuffled serially on the host or computed as a
// keyed permutation (toggle device_randperm).
#include "core/base/output.h"
#include "core/device/timer.h"
#include "core/tensor/rng.h"
#include "labs/bench/bench.h"
#include "trainer/verbs/tables.h"

namespace bellows {

static int run_randperm(CommandLine& line, const Arguments& args) {
  std::string wanted = "auto";
  int64_t elements = 10'000'000;
  add_device_option(line, wanted);
  line.add_option("--elements", elements, "length of the permutation").positive();
  if (!line.read(args)) return 0;
  const Device device = start_bench(wanted);
  uint64_t epoch = 0;
  const auto permute = [&](bool serial) {
    randperm(elements, {.purpose = Purpose::shuffle, .step = epoch++}, device, serial);
  };
  const std::vector<Timing> times =
      time_interleaved({[&] { permute(true); }, [&] { permute(false); }}, device, {.rounds = 3});
  std::vector<TableRow> rows = {{cat(elements, " elements"), "median", "fastest", "rate"}};
  for (size_t i = 0; i < times.size(); ++i)
    rows.push_back({i == 0 ? "serial shuffle on the host" : "keyed, in parallel",
                    time_text(times[i].median()), time_text(times[i].fastest()),
                    rate_text(double(elements) / times[i].median(), "elements/s")});
  say(device_text(device));
  say_part(aligned(rows, "lrrr"));
  return 0;
}

static const AddBench randperm_bench({"randperm",
                                      "the order of an epoch: a serial shuffle, or a keyed one",
                                      "trainer bench randperm --elements 1000000", run_randperm});

}  // namespace bellows
