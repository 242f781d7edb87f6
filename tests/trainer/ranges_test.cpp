// Numbers in a config or a checkpoint that would overflow in later computations.
#include <gmock/gmock.h>
#include <unistd.h>
#include <nlohmann/json.hpp>
#include "core/base/json.h"
#include "core/config/visitor.h"
#include "core/tensor/safetensors.h"
#include "plan/plan.h"
#include "tests/trainer/program.h"
#include "trainer/verbs/tables.h"

using namespace bellows;
using testing::HasSubstr;

namespace {

// Tries a huge number on every integer option, also on the items that a list would have.
class WholeNumbers : public Visitor {
 public:
  int seen = 0;
  std::vector<std::string> unbounded;

 protected:
  void option(const std::string& key, const Option& option, const char*) override {
    if (!option.accepts.starts_with("a whole number")) return;
    ++seen;
    const bool is_bits = option.read("18446744073709551615");  // a seed is not a count
    if (!is_bits && option.read("9223372036854775807")) unbounded.push_back(key);
  }
  std::optional<size_t> list_size(const std::string&, size_t, const char*) override { return 1; }
};

class Ranges : public Program {};

}  // namespace

TEST(OptionRanges, EveryWholeNumberHasAMaximum) {
  WholeNumbers visitor;
  Plan plan;
  visit(visitor, plan);
  for (const Table& table : tables()) {
    if (!table.visit) continue;
    for (const TableRow& row : table.rows()) table.visit(visitor, row[0]);
  }
  EXPECT_THAT(visitor.unbounded, testing::IsEmpty());
  EXPECT_GT(visitor.seen, 60);
}

TEST_F(Ranges, AnAbsurdBatchSizeIsRefusedWithTheRange) {
  succeed(tiny({}));
  expect_refusal({"eval", "runs/run", "eval.batch_size=9223372036854775807"}, 2,
                 "eval.batch_size: '9223372036854775807' is not a whole number from 0 to 16777216");
  const Ended larger = run({"eval", "runs/run", "eval.batch_size=4096"});  // than the test set
  EXPECT_THAT(larger.out, HasSubstr("eval: 20 samples, ")) << larger.err;
}

// Each position would train forever, read beyond the table of learning rates, or skip the remaining
// samples. A branch may start in the middle of an epoch whose length has changed.
TEST_F(Ranges, AForgedPositionIsRefused) {
  succeed(tiny({"train.max_iters=6"}));
  const std::string file = "runs/run/checkpoints/step_00000006.safetensors";
  const SafeTensors saved = read_safetensors(folder_ / file);
  const struct {
    const char *entry, *key;
    Json value;
    const char* complaint;
  } cases[] = {
      {"position", "step", -1, "'step' is -1, not a count"},
      {"position", "step", INT64_MIN, "not a count"},
      {"position", "step", UINT64_MAX, "not a count"},
      {"position", "step", 1e300, "a number beyond 1e+50"},
      {"position", "step", "6", "not a count"},
      {"position", "step", 5,
       "the checkpoint's position does not fit this run: epoch 1, batch 2, "
       "step 5, update 6 of the schedule, where an epoch has 4"},
      {"position", "batch", 5, "epoch 1, batch 5"},
      {"position", "batch", INT64_MAX, "'batch' is 9223372036854775807"},
      {"position", "epoch", INT64_MAX, "'epoch' is 9223372036854775807"},
      {"position", "epoch", 1'000'000'000'000, "epoch 1000000000000"},
      {"position", "epoch", -1, "'epoch' is -1"},
      {"step_state", "applied", -1, "'applied' is -1"},
      {"step_state", "schedule_index", 7, "update 7 of the schedule"},
      {"step_state", "forwards", -1, "'forwards' is -1"},
  };
  for (const auto& [entry, key, value, complaint] : cases) {
    Metadata metadata = saved.metadata;
    Json forged = Json::parse(metadata.at(entry));
    forged[key] = value;
    metadata[entry] = to_line(forged);
    write_safetensors(folder_ / file, saved.tensors, metadata);
    expect_refusal(tiny({"--resume"}), 4, complaint, [] { alarm(60); });
    const bool is_branch = value == 5;
    if (!is_branch) expect_refusal(tiny({"--resume", file}), 4, complaint, [] { alarm(60); });
  }
}

TEST_F(Ranges, ABadPlanInACheckpointIsTheCheckpointsFault) {
  succeed(tiny({}));
  const std::string folder = "runs/run/checkpoints/", forged = folder + "forged.safetensors";
  const SafeTensors saved = read_safetensors(folder_ / (folder + "step_00000008.safetensors"));
  for (const auto& [key, value] : std::map<std::string, std::string>{
           {"model.name", "none"}, {"seed", "-1"}, {"nonsense", "1"}, {"name", "../out"}}) {
    Metadata metadata = saved.metadata;
    Json plan = Json::parse(metadata.at("plan"));
    plan[key] = value;
    metadata["plan"] = to_line(plan);
    write_safetensors(folder_ / forged, saved.tensors, metadata);
    expect_refusal({"eval", forged}, 4, "the checkpoint's plan: ");
    expect_refusal(tiny({"--resume", forged}), 4, "the checkpoint's plan: ");
  }
}
