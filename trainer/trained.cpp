#include "trainer/trained.h"
#include "trainer/checkpoints.h"
#include "trainer/config.h"
#include "trainer/output.h"
#include "trainer/training_state.h"

namespace bellows {

std::unique_ptr<Session> load_trained(const std::string& file_or_run, const Names& overrides) {
  std::vector<std::string> messages;
  const Loaded saved = load_checkpoint(file_or_run, messages);
  for (const std::string& message : messages) say(message);
  const Values given = parse_overrides(overrides);
  for (const auto& [key, value] : given)
    CHECK(!key.starts_with("toggles"), key, ": a trained model keeps the toggles of its run; what ",
          "they set can be given as an option, as  amp.dtype=off  or  device=cpu");
  const Plan plan = load(plan_of(saved.content), given);
  auto session = std::make_unique<Session>(plan);
  restore_model(*session, saved.content);
  return session;
}

}  // namespace bellows
