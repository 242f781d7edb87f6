// trainer bench oversub: products per second of P processes with T threads each, up to twice as
// many of both as there are cores. The processes are real: the program starts itself again.
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <deque>
#include <sstream>
#include "core/base/output.h"
#include "core/base/statistics.h"
#include "core/base/words.h"
#include "core/device/threads.h"
#include "core/device/timer.h"
#include "labs/bench/bench.h"
#include "labs/bench/product.h"
#include "trainer/launch/child.h"
#include "trainer/verbs/tables.h"

namespace bellows {

namespace {
// A cell of the grid. A switch takes the core from a thread that has work.
struct Cell {
  int64_t processes, threads, in_all = 0;
  std::vector<double> rates = {}, switches = {};  // per second, one value for each round
  double rate() const { return median(rates); }
};

struct OversubOptions {
  double seconds = 0.2;
  int64_t rounds = 3, most = 0, threads = 0;  // threads: of a child; 0 in the parent
};
}  // namespace

static int64_t switches_so_far() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

// Runs a child: reports that it is ready, and begins with all others, when its stdin ends.
static int compute(const OversubOptions& o) {
  apply({.threads = static_cast<int>(o.threads)});
  const Product product(precisions(Device::cpu)[0], {384, 384}, {384, 384}, Device::cpu);
  product.run();  // the library prepares its kernel
  int64_t team = 0;
#pragma omp parallel reduction(+ : team)
  team += 1;
  say("ready");
  pollfd end{STDIN_FILENO, POLLIN, 0};
  poll(&end, 1, -1);
  const int64_t before = switches_so_far(), begin = time_ns(Clock::wall);
  int64_t products = 0;
  do product.run(), ++products;
  while (seconds_since(begin) < o.seconds);
  const double wall = seconds_since(begin);
  const auto switches = double(switches_so_far() - before);
  say(fmt::format("{} {} {}", team, double(products) / wall, switches / wall));
  return 0;
}

static std::string next_line(LinePipe& from) {
  for (;;) {
    CHECK(!from.over(), "bench oversub: a process has ended early");
    pollfd readable{from.reader(), POLLIN, 0};
    poll(&readable, 1, -1);
    if (const auto lines = from.read_lines(false); !lines.empty()) return lines[0];
  }
}

static void run_together(Cell& cell, double seconds) {
  LinePipe begin;
  std::deque<LinePipe> reports;  // one per process; a pipe ends with its process
  const Command command{{"/proc/self/exe", "bench", "oversub", "--threads", cat(cell.threads),
                         "--seconds", cat(seconds)}};
  std::vector<pid_t> children;
  for (int64_t i = 0; i < cell.processes; ++i) {
    LinePipe& report = reports.emplace_back();
    children.push_back(start_child(
        command, {{begin.reader(), STDIN_FILENO}, {report.writer(), STDOUT_FILENO}}, Group::ours));
    report.close_writer();
  }
  for (LinePipe& report : reports) next_line(report);
  begin.close_writer();
  cell.in_all = 0, cell.rates.push_back(0), cell.switches.push_back(0);
  for (LinePipe& report : reports) {
    int64_t threads = 0;
    double rate = 0, switches = 0;
    std::istringstream(next_line(report)) >> threads >> rate >> switches;
    cell.in_all += threads;
    cell.rates.back() += rate;
    cell.switches.back() += switches;
  }
  for (const pid_t child : children) waitpid(child, nullptr, 0);
}

static std::vector<int64_t> counts_to(int64_t most) {
  std::vector<int64_t> counts;
  for (int64_t count = 1; count < most; count *= 2) counts.push_back(count);
  counts.push_back(most);
  return counts;
}

static std::vector<Cell> grid(const OversubOptions& o, int64_t most) {
  std::vector<Cell> cells;
  for (const int64_t processes : counts_to(most))
    for (const int64_t threads : counts_to(most)) cells.push_back({processes, threads});
  for (int64_t round = 0; round < o.rounds; ++round)
    for (Cell& cell : cells) run_together(cell, o.seconds);
  return cells;
}

static void print(const std::vector<Cell>& cells, int64_t cores) {
  double fitting = 0, least = INFINITY, most = 0;  // best with a core per thread; others
  for (const Cell& cell : cells)
    if (cell.in_all <= cores) fitting = std::max(fitting, cell.rate());
  std::vector<TableRow> rows = {
      {"processes", "threads", "in all", "products/s", "of the best", "switches/s"}};
  for (const Cell& cell : cells) {
    const double share = 100 * cell.rate() / fitting;
    rows.push_back({cat(cell.processes), cat(cell.threads), cat(cell.in_all),
                    fmt::format("{:.0f}", cell.rate()), fmt::format("{:.0f} %", share),
                    fmt::format("{:.0f}", median(cell.switches))});
    if (cell.in_all > cores) least = std::min(least, share), most = std::max(most, share);
  }
  say_part(aligned(rows, "rrrrrr"));
  if (most)
    say(fmt::format("more threads than cores: {:.0f} to {:.0f} % of the best that has no more",
                    least, most));
}

static int run_oversub(CommandLine& line, const Arguments& args) {
  OversubOptions o;
  line.add_option("--seconds", o.seconds, "time of each row in a round").positive().shows_default();
  line.add_option("--rounds", o.rounds, "whose median counts").range(1, 1000).shows_default();
  line.add_option("--most", o.most, "processes, and threads of each (default: twice the cores)")
      .range(1, 1024);
  line.add_option("--threads", o.threads, "be one of the processes").range(1, 1024).hidden();
  line.add_note(
      "Threads that wait for others of their team spin briefly, then sleep. With "
      "OMP_WAIT_POLICY=active they spin on, on the cores that the others need.");
  if (!line.read(args)) return 0;
  if (o.threads) return compute(o);
  const int64_t cores = allowed_cores();
  const std::vector<Cell> cells = grid(o, o.most ? o.most : 2 * cores);
  say(cat("f32 products of 384 x 384 on ", count_of(cores, "core"),
          "; a switch takes the core from a thread that has work"));
  print(cells, cores);
  return 0;
}

static const AddBench oversub_bench({"oversub",
                                     "processes with threads each, up to twice the cores",
                                     "trainer bench oversub --most 2 --seconds 0.05", run_oversub});

}  // namespace bellows
