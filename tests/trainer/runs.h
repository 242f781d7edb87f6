// Plans of a few options, and silent runs of them in this process.
#pragma once
#include "core/config/config.h"
#include "core/config/yaml.h"
#include "trainer/run/loop.h"
#include "trainer/session/session.h"

namespace bellows {

// Returns Plan{} with these options; `more` takes precedence.
inline Plan plan_of(const Values& base, Values more) {
  more.insert(base.begin(), base.end());
  return load(Plan{}, more);
}

inline Values from_yaml(const std::string& text) { return parse_yaml(text, "yaml of a test"); }

struct Ran : Outcome {
  std::string hash;  // of the model
  StepState state;
};

inline Ran run(Session& session, const AfterUpdate& after = {}, const Position& from = {}) {
  Log log(session.plan, {}, LogOutput::silent);
  Signals signals;
  Outcome outcome = train(session, log, nullptr, signals, from, after);
  return {std::move(outcome), model_hash(session), session.state->read()};
}
inline Ran run(const Plan& plan, const AfterUpdate& after = {}) {
  Session session(plan);
  return run(session, after);
}

// Returns the content of a checkpoint of that step, without a file.
inline SafeTensors saved_at(int64_t step, const Plan& plan) {
  Session session(plan);
  SafeTensors saved;
  run(session, [&](const Position& at) {
    if (at.step == step) saved = {snapshot(state_tensors(session)), state_metadata(session, at)};
  });
  return saved;
}
inline Ran resume(Session& session, const SafeTensors& saved) {
  std::vector<std::string> notes;
  return run(session, {}, restore(session, saved, notes));
}

}  // namespace bellows
