#include "core/base/output.h"
#include "core/config/config.h"
#include "data/packed/shard.h"
#include "trainer/session/session.h"
#include "trainer/state/checkpoints.h"
#include "trainer/state/training_state.h"

namespace bellows {

static Values other_data(const Plan& plan, const std::string& data) {
  std::error_code none;
  if (data.empty()) return {};
  if (!std::filesystem::is_directory(data, none)) {
    CHECK(data.find('/') == data.npos || data.find('{') != data.npos, "--data ", data,
          ": no such folder");
    return parse_overrides({"data=" + data});
  }
  const Values options = dump(plan);
  if (options.contains("data.root")) return {{"data.root", {data, "--data"}}};
  const bool packed = std::filesystem::exists(shard_path(data, Split::test, 0), none);
  if (options.contains("data.folder") && packed) return {{"data.folder", {data, "--data"}}};
  return {{"data.name", {"image_folder", "--data"}}, {"data.root", {data, "--data"}}};
}

std::unique_ptr<Session> load_trained(const std::string& file_or_run, bool tests,
                                      const Names& overrides, const std::string& data) {
  std::vector<std::string> messages;
  const auto [path, saved] = load_checkpoint(file_or_run, messages);
  Plan plan = read_plan(saved);
  check_finite(path, model_part(saved.tensors), plan.ckpt, messages);
  for (const std::string& message : messages) say_error(message);
  Values given = parse_overrides(overrides);
  for (const auto& [key, value] : given)
    CHECK(!key.starts_with("toggles"), key, ": a trained model keeps the toggles of its run; ",
          "set an option instead, such as  amp.dtype=off  or  device=cpu");
  for (const auto& [key, value] : other_data(plan, data))
    CHECK(given.emplace(key, value).second, "--data ", data, " and  ", key, "=", given[key].text,
          "  exclude each other");
  plan = load(plan, given);
  TrainingSetInfo trained = trained_on(saved);
  trained.tests = tests;
  plan.data.transforms = with_statistics(plan.data.transforms, trained.info);
  auto session = std::make_unique<Session>(plan, trained);
  restore_model(*session, saved);
  return session;
}

}  // namespace bellows
