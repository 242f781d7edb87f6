// Small training runs, and what they show against a toggle (findings).
//
// Findings are functions of a Toggle, so that tests can pass one that is planted to be wrong and
// check that it is found.
#pragma once
#include <string>
#include <vector>
#include "plan/toggle.h"

namespace bellows {

struct Trial {
  std::vector<double> losses;               // one per update, or as evaluated() says
  std::map<std::string, int64_t> counters;  // increase of each
};

// The plan that proofs start from: LeNet, on a GPU pooled_lenet(), on a few digits, silent, without
// files. Use the CPU unless the toggle needs a GPU.
Plan tiny_plan(DeviceChoice device = DeviceChoice::cpu);
// The same for sequences: a GPT of one layer that learns to add.
Plan tiny_adder();
// Trains the plan to its end. Plans that were tried before in this process are cached.
const Trial& tried(const Plan& plan);
// The same for 24 updates. The losses are those of evaluations after updates 1, 4 and 24.
const Trial& evaluated(Plan plan);

struct Closeness {
  Same same;
  double tolerance = 0;
};
// Returns the closeness that the toggle promises to a run that is `plain` without it.
Closeness closeness(const Toggle& toggle, const Trial& plain, const Trial& changed);
Closeness weaker(const Closeness& a, const Closeness& b);

// Returns "" if the counter that the toggle claims to lower fell, or if it claims another gain.
std::string gain_complaint(const Toggle& toggle, const Trial& off, const Trial& on);

// Returns "" if the losses differ by no more than `allowed`, else one line.
std::string compare(const Trial& plain, const Trial& changed, const Closeness& allowed);

// Return one line for each value of the toggle that breaks a promise in its proof plan, "" if none:
// a footprint that is 0 when on or not 0 when off, or a counter that does not fall as the card
// says; losses that differ too much.
std::string footprint_findings(const Toggle& toggle, DeviceChoice device);
std::string loss_findings(const Toggle& toggle, DeviceChoice device);
std::string evaluation_findings(const Toggle& toggle, DeviceChoice device);
// Compares losses with both toggles on, in the proof plan of the first, or in tiny_adder() with
// the toggles that both need.
std::string pair_findings(const Toggle& toggle, const Toggle& other, DeviceChoice device);
std::string pair_findings_of_the_adder(const Toggle& toggle, const Toggle& other);

bool can_run(const Toggle& toggle, DeviceChoice device);  // the machine has what it needs

}  // namespace bellows
