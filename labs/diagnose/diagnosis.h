// `trainer diagnose`: which resource limits a run, and which switch helps. Files in this folder:
//   evidence   a run, measured here or read from its folder
//   rules      the faults, one rule each
//   diagnosis  the rules that fire, as text and JSON
//   diagnose   the verb
#pragma once
#include <algorithm>
#include <cmath>
#include "core/base/json.h"
#include "plan/toggle.h"

namespace bellows {

// ---- evidence

// An op in both passes, all its calls of an update together.
struct OpTime {
  std::string name;
  double s = 0;      // self time per update
  double flop = 0;   // of matrix products, per update
  double calls = 0;  // per update
};

// Evidence about a run: measured by a few updates, or read from its folder, which records less.
struct Evidence {
  Config config = {};
  int64_t updates = 0;  // number of measured updates
  // One value per update, or per log window: seconds per update, and the part of it spent waiting
  // for data.
  std::vector<double> batch_cost = {}, reader_cost = {};
  // Shares of the whole run; 0 if unknown.
  double eval_share = 0, save_share = 0;
  int64_t saves = -1;   // checkpoints that the run wrote; -1: unknown
  int64_t skipped = 0;  // updates skipped because of non-finite gradients

  bool on_gpu = false;
  bool gpu_idle = false;  // the machine has a GPU that the binary could use, and the run does not
  bool tensor_cores = false;
  double load_s = 0;             // time that one worker takes to make a batch
  double batch_bytes = 0;        // 0: unknown
  double disk_bytes_per_s = -1;  // read by all programs of this machine; -1: unknown
  // In cores, -1 if unknown: CPU time of the process, and time in which compute threads were ready
  // but had no core, per second.
  double cpu_used = -1, waited = -1;
  double others = -1;  // share of all cores that went to other programs and machines; -1: unknown
  int cores = 1;

  // Only if measured here:
  bool measured = false;
  std::vector<OpTime> ops = {};  // longest first
  double product_bytes = 0;      // bytes that the products of an update read and write
  double between_ops_s = 0;      // per update: time in no op, in which a GPU waits for the host
  int gpu_processes = 1;         // processes on the run's GPU, including the run
  double fma_per_s = 0;          // FLOP/s of multiply-adds in registers; 0: unknown
  int64_t biases_before_norm = 0;
  Counters counters = {};  // increases during the measurement

  double batch_s() const;   // mean seconds per update
  double reader_s() const;  // mean seconds per update spent waiting for data
  double compute_s() const { return batch_s() - reader_s(); }
  double share(double s) const { return s / std::max(batch_s(), 1e-12); }  // of an update
  double input_share() const { return share(reader_s()); }
  // Standard deviation of the updates' compute shares: 0 steady, 0.5 if they alternate between none
  // and all.
  double swing() const;
  int64_t workers() const;                            // with num_workers=auto: the initial number
  int64_t counted(const std::string& counter) const;  // 0 if it does not exist
};

// Trains with the plan for about `seconds`, after the warm-up, without evaluations and checkpoints.
// After limit_s both end with the update that runs then. Throws what training throws.
Evidence measure(Config config, double seconds, double limit_s = INFINITY);
// Reads what the folder of a run records. Throws Error: exit 2 if no run is in it, 3 if a file of
// it is damaged.
Evidence read_evidence(const std::string& folder);

// ---- diagnosis

struct Fault {
  std::string text = {};
  double saves_s = 0;       // per update: measured time that the remedy can remove at most
  Names remedies = {};      // settings that a command line takes: "toggles.num_workers=4"
  std::string advice = {};  // advice if no setting helps
};

struct Rule {
  const char* name;
  const char* key;  // one of the source text's five areas: reading, configuration, ...
  std::optional<Fault> (*judge)(const Evidence&);  // returns the fault, or nothing
};
const std::vector<Rule>& diagnosis_rules();

// Workers that hide the loading: ceil(L / C), where one worker needs L seconds for a batch and the
// step computes for C.
int64_t workers_needed(const Evidence& e);

// Returns the toggles that `toggles: all` would switch on: "preallocate", "amp=bf16".
Names untried(const Evidence& e);

// Returns the kind of training, as the source texts number them: 1 small model, light loading; 2
// small, heavy; 3 large, light; 4 large, heavy. The times of ops must be known.
int class_of(const Evidence& e);

// Returns the report, "kind": "diagnose". Its findings are grouped by key; keys, and findings
// within a key, are in order of descending saving. most_speedup: if the remedy removes all that it
// can (Amdahl's law). text: the report in 80 columns.
Json diagnose(const Evidence& e);

}  // namespace bellows
