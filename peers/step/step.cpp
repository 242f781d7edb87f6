// bench_step: times the trainer's step as peers/torch/torch_step.py times PyTorch's: forward,
// cross-entropy, backward, SGD (momentum 0.9, weight decay 1e-4), on one batch in memory. Prints
// one JSON line.
//
//   bench_step --model lenet --batch 64 --threads 1
//   bench_step --batch 64 --threads 1 toggles.batch_lanes=off   key=value as for the trainer
//   bench_step --device cuda --resident                         one line after the warm-up, then
//                                                               one per line on stdin
#include "peers/step/step.h"
#include <fmt/format.h>
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include "core/base/json.h"
#include "core/base/statistics.h"
#include "core/base/trace.h"
#include "trainer/verbs/command_line.h"

using namespace bellows;

namespace {

struct StepArguments : StepRequest {
  int64_t min_steps = 5, warmup = 20;
  double seconds = 5;
  bool resident = false;
};

StepArguments parse(int argc, char** argv) {
  StepArguments a;
  CommandLine line("bench_step", "times a training step", "bench_step --model lenet --batch 64");
  line.add_option("--model", a.model, "of the trainer");
  line.add_option("--batch", a.batch, "samples").positive();
  line.add_option("--image", a.image, "side of the images, where the model is not for digits");
  line.add_option("--device", a.device, "cpu or cuda");
  line.add_option("--threads", a.threads, "of the host");
  line.add_option("--warmup", a.warmup, "steps");
  line.add_option("--seconds", a.seconds, "of steps, for a block");
  line.add_option("--min-steps", a.min_steps, "of a block");
  line.add_flag("--resident", a.resident, "a block for each line on stdin, until it ends");
  line.add_option("words", a.words, "key=value as for the trainer");
  if (!line.read({argv + 1, argv + argc})) std::exit(0);
  return a;
}

void print_problem(const std::string& line) { fmt::print(stderr, "bench_step: {}\n", line); }

// Toggles that are on and whose footprint counter is not 0.
Json toggles_that_ran(const Config& config) {
  Json ran = Json::array();
  for (const Toggle& toggle : toggles()) {
    const bool on = config.toggles.at(toggle.name).text != toggle.off();
    if (on && trace::counter(toggle.footprint).value() > 0) ran.push_back(toggle.name);
  }
  return ran;
}

Json block(const StepArguments& a, NoiseStep& step, int64_t steps) {
  const Times t = time_steps(step, steps, step.device() == Device::cpu ? a.seconds : 0);
  const auto done = int64_t(t.ms.size());
  Json per_step = Json::object();
  for (const auto& [name, moved] : t.moved) per_step[name] = double(moved) / double(done);
  for (const std::string& report : take_sync_reports()) print_problem(report);
  const double middle = median(t.ms);
  return {{"steps", done},
          {"ms_median", middle},
          {"ms_q1", quantile(t.ms, 0.25)},
          {"ms_q3", quantile(t.ms, 0.75)},
          {"ms_wall", t.wall_ms / double(done)},
          {"ms_cpu_min", *std::ranges::min_element(t.cpu_ms)},
          {"ips", double(a.batch) / middle * 1e3},
          {"loss", step.loss()},
          {"peak_bytes", allocator_stats(step.device()).peak_allocated},
          {"per_step", per_step}};
}

void say(const Json& line) {
  fmt::print("{}\n", line.dump());
  std::fflush(stdout);
}

// Toggles that have no effect on this machine, or were on and never ran.
std::vector<std::string> warnings(const Config& config) {
  std::vector<std::string> lines = config.notes;
  std::ranges::move(idle_toggles(toggle_uses(config, {}, trace::counters())),
                    std::back_inserter(lines));
  for (const std::string& line : lines) print_problem(line);
  return lines;
}

int run(const StepArguments& a) {
  const int64_t begin = trace::now_ns();
  const Config config = config_of(a);
  NoiseStep step(config.plan);
  for (int i = 0; i < a.warmup; ++i) step();
  const double step_s = time_steps(step, 3, 0).wall_ms * 1e-3 / 3;
  Json line = {{"name", "bellows"},
               {"model", a.model},
               {"batch", a.batch},
               {"words", a.words},
               {"device", a.device},
               {"threads", a.threads},
               {"ran", toggles_that_ran(config)},
               {"warnings", warnings(config)},
               {"warmup_s", double(trace::now_ns() - begin) * 1e-9}};
  const int64_t steps = step.device() == Device::cpu
                            ? a.min_steps
                            : std::max(a.min_steps, int64_t(std::ceil(a.seconds / step_s)));
  if (!a.resident) {
    line.update(block(a, step, steps));
    say(line);
    return 0;
  }
  say(line);
  for (std::string turn; std::getline(std::cin, turn);) say(block(a, step, steps));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const Error& error) {
    print_problem(error.what());
    return static_cast<int>(error.exit);
  }
}
