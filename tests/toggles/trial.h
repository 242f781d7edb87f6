// A small training run, and what may be said against a toggle after some of them.
//
// The findings are functions of a Toggle, so that tests can hand them one that is planted to be
// wrong and see that it is found.
#pragma once
#include <string>
#include <vector>
#include "plan/toggle.h"

namespace bellows {

struct Trial {
  std::vector<double> losses;               // of each update
  std::map<std::string, int64_t> counters;  // how far each moved
};

// A LeNet on a handful of digits, silent, without files: what proofs start from. On the CPU, if a
// toggle does not need a GPU.
Plan tiny_plan(DeviceChoice device = DeviceChoice::cpu);
// Trains it to its end. A plan that was tried before in this process is not trained again.
const Trial& tried(const Plan& plan);

struct Closeness {
  Same same;
  double tolerance = 0;
};
// What the toggle promises to a run that without it is `plain`.
Closeness closeness(const Toggle& toggle, const Trial& plain, const Trial& changed);
Closeness weaker(const Closeness& a, const Closeness& b);

// "" or one line. Do the losses differ by no more than that?
std::string compare(const Trial& plain, const Trial& changed, const Closeness& allowed);

// "" or one line for each value of the toggle that, in its proof plan, does not do what it says:
// a footprint that stands still when it is on, or moves when it is off; losses that differ.
std::string footprint_findings(const Toggle& toggle, DeviceChoice device);
std::string loss_findings(const Toggle& toggle, DeviceChoice device);
// The same losses for both together, in the proof plan of the first.
std::string pair_findings(const Toggle& toggle, const Toggle& other, DeviceChoice device);

bool can_run(const Toggle& toggle, DeviceChoice device);  // what it needs of the machine is there

}  // namespace bellows
