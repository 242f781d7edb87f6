// `trainer sweep`: measures a run for each value of one key, or each combination of two.
#pragma once
#include "data/loader/loader_law.h"
#include "ops/base/work.h"
#include "trainer/ab/arms.h"

namespace bellows {

struct SweepKey {
  std::string key;  // key of the configuration: "data.batch_size", "toggles.num_workers"
  Names values;
  std::string name() const { return key.substr(key.rfind('.') + 1); }  // "batch_size"
};
// Reads "key=v1,v2"; a toggle needs no "toggles." before its name. Throws Error (exit 2).
SweepKey parse_sweep(const std::string& text);

struct SweepFacts {
  Names values;  // value of each key in this arm
  int64_t batch = 0, workers = 0;
  int64_t pixels = 0;        // pixels of an image; set by record_work()
  std::optional<Cost> work;  // work of a step, if arms differ in it; set by record_work()
};
// One arm per combination, the last key varies fastest.
struct SweepResult : Comparison {
  std::vector<SweepKey> keys;
  std::vector<SweepFacts> facts;  // one per arm
  Names unmeasured = {};          // arms for which the budget had no time
};
// Makes the arms, without their work. Throws Error (exit 2) if a combination is not a valid run, or
// two are the same.
SweepResult sweep_arms(const ArmOptions& options, const std::vector<SweepKey>& keys);

// Fills the facts that only measured arms show: call it after run_rounds().
void record_work(SweepResult& result);

// Returns the time per sample of the first arm divided by that of `arm`.
Speedup speedup_over_first(const SweepResult& result, const AbArm& arm);

// The laws of arms that differ only in their number of workers: the arms' indices, and the law if
// they determine one.
struct SweptLaw {
  std::vector<size_t> arms;
  std::optional<LoaderLaw> law;
};
std::vector<SweptLaw> swept_laws(const SweepResult& result);

std::string to_markdown(const SweepResult& result);
Json to_json(const SweepResult& result);

}  // namespace bellows
