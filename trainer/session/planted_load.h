// Planted load (sim.compute, sim.load, data.sim_latency_us): loading that sleeps and computing that
// spins, so that a lesson shows the same on every machine.
#pragma once
#include "plan/plan.h"

namespace bellows {

// Replaces sim.compute: auto by twice the time of an update here, at least 10 ms. Makes a session
// for that. Throws Error (exit 2) for several ranks, each of which would find another time.
void settle_planted_load(Plan& plan);

// Returns what is planted, in one line; "" if nothing is.
std::string planted_load(const Plan& plan);

// Returns the planted loading time of a batch, in us.
int64_t planted_latency_us(const Plan& plan);

// Spins on the calling thread until an update that began at `begin_ns` has computed for
// sim.compute. A longer update does not spin.
void compute_until(const SimOptions& sim, int64_t begin_ns);

}  // namespace bellows
