// Run folders, resume and branches through the real program: the choice of the folder, changes that
// are allowed, and metrics.jsonl after kill -9.
#include <csignal>
#include <nlohmann/json.hpp>
#include "tests/trainer/program.h"

using namespace bellows;
namespace fs = std::filesystem;

namespace {

class Resuming : public Program {
 protected:
  // Rows of a run's metrics.jsonl, without times and costs.
  std::vector<std::string> results(const fs::path& run) const {
    std::vector<std::string> results;
    for (const Json& row : rows(run)) {
      Json result;
      for (const char* key : {"split", "epoch", "step", "loss", "lr", "accuracy"})
        if (row.contains(key)) result[key] = row[key];
      results.push_back(result.dump());
    }
    return results;
  }
  // Trains a run that keeps a checkpoint of every step. Returns the file of that one.
  std::string trained_to(int step) {
    succeed(tiny({"ckpt={every_iters: 1, keep: 9}", "optimizer={momentum: 0.9}"}));
    return cat("runs/run/checkpoints/step_0000000", step, ".safetensors");
  }
};

}  // namespace

// ---- choice of the folder

TEST_F(Resuming, ANamedFolderIsUsedOrRefusedNeverRenamed) {
  const char* const foreign[] = {"slurm-17.out", "checkpoints/mine.safetensors",
                                 "checkpoints/step_best.safetensors", "pictures/mine.png"};
  for (const char* name : foreign) write(cat("out/", name), "of somebody else");
  EXPECT_THAT(run(tiny({"--run-dir", "out"})).out, HasSubstr("run folder: out\n"));
  const std::string first = read("out/metrics.jsonl");
  expect_refusal(tiny({"--run-dir", "out"}), 2,
                 "--run-dir out: already holds a run; continue it (--resume)");
  EXPECT_EQ(read("out/metrics.jsonl"), first);
  EXPECT_FALSE(fs::exists(folder_ / "out-2"));
  write("out/pictures/step_00000001.png", "of the first run");
  EXPECT_THAT(run(tiny({"--run-dir", "out", "--overwrite", "train.epochs=1"})).out,
              HasSubstr("run folder: out\n"));
  for (const char* name : foreign) EXPECT_EQ(read(cat("out/", name)), "of somebody else") << name;
  for (const char* gone : {"pictures/step_00000001.png", "checkpoints/step_00000008.safetensors"})
    EXPECT_FALSE(fs::exists(folder_ / "out" / gone)) << gone;
  // Each file that a run writes is a trace of one.
  for (const char* name : {"plan.yaml", "metrics.jsonl", "checkpoints/step_00000001.safetensors",
                           "checkpoints/best.safetensors", "events.out.tfevents.1.h.2.0",
                           "pictures/step_00000001.png"}) {
    fs::remove_all(folder_ / "used");
    write(cat("used/", name), "x");
    expect_refusal(tiny({"--run-dir", "used"}), 2, "already holds a run");
  }
}

TEST_F(Resuming, ANamedFolderIsTheOneThatResumes) {
  run(tiny({"--run-dir", "out"}));
  run(tiny({"--run-dir", "out-2"}));  // not taken for a newer run of the same name
  EXPECT_THAT(succeed({"train", "--run-dir", "out", "--resume", "train.epochs=3"}),
              AllOf(HasSubstr("resume: out/checkpoints/step_00000008.safetensors"),
                    HasSubstr("run folder: out\n"), HasSubstr("done: 12 steps")));
  EXPECT_THAT(succeed(tiny({"--run-dir", "new", "--resume"})),
              AllOf(HasSubstr("resume: no checkpoint in new/checkpoints, a new run"),
                    HasSubstr("run folder: new\n")));
}

TEST_F(Resuming, AfterAGapTheHighestNumberIsTheNewestRunAndANewOneGoesAboveIt) {
  for (const char* other : {"run-07", "run-9x", "run-20261127", "run-", "rung-8"})
    fs::create_directories(folder_ / "runs" / other);
  write("runs/run-50/plan.yaml", "name: run-50     # a.yaml:1:1\n");  // the first of that name
  for (int i = 0; i < 3; ++i) run(tiny({}));
  fs::remove_all(folder_ / "runs/run-2");
  EXPECT_THAT(run(tiny({"--resume", "train.epochs=3"})).out,
              AllOf(HasSubstr("resume: runs/run-3/"), HasSubstr("run folder: runs/run-3\n")));
  const auto one = start(tiny({})), other = start(tiny({}));  // at the same time
  EXPECT_EQ(one->end().code, 0);
  EXPECT_EQ(other->end().code, 0);
  EXPECT_FALSE(fs::exists(folder_ / "runs/run-2"));
  for (const char* name : {"run-4", "run-5"}) EXPECT_EQ(checkpoints(cat("runs/", name)).size(), 2u);
}

// A run that ended before its first checkpoint does not hide the one before it.
TEST_F(Resuming, PassesOverARunWithoutACheckpointAndSaysSo) {
  for (int i = 0; i < 4; ++i) run(tiny({}));
  for (const char* name : {"run-4", "run-3"})
    fs::remove_all(folder_ / "runs" / name / "checkpoints");
  EXPECT_THAT(succeed(tiny({"--resume", "train.epochs=3"})),
              AllOf(HasSubstr("warning: runs/run-4 has no checkpoint; resuming runs/run-2, the "
                              "newest run that has one\n"),
                    HasSubstr("resume: runs/run-2/"), HasSubstr("run folder: runs/run-2\n")));
  for (const char* name : {"run", "run-2"}) fs::remove_all(folder_ / "runs" / name / "checkpoints");
  const Ended fresh = run(tiny({"--resume"}));
  EXPECT_THAT(fresh.out,
              AllOf(HasSubstr("resume: no checkpoint in runs/run-4/checkpoints, a new run"),
                    Not(HasSubstr("warning: runs/"))));
}

TEST_F(Resuming, AFinishedCosineWithMoreEpochsSaysThatTheRateRisesAgain) {
  for (const std::string schedule : {"cosine", "constant"}) {
    const std::string name = cat("schedule={name: ", schedule, "}"), folder = "runs/" + schedule;
    run(tiny({name, "optimizer={name: sgd, lr: 0.5}", "--run-dir", folder}));
    EXPECT_THAT(run({"train", "--resume", folder}).out, Not(HasSubstr("rises")));
    // cos^2(pi/2 * 8/16) of 0.5; before, that of 7/8.
    const char* const rises = "resume: the learning rate rises from 0.0190301 to 0.25 here";
    const std::string more = succeed({"train", "--resume", folder, "train.epochs=4"});
    EXPECT_EQ(more.find(rises) != more.npos, schedule == "cosine") << more;
  }
}

// ---- origins

TEST_F(Resuming, KeepsTheOriginOfEachValue) {
  run(tiny({"--run-dir", "out", "toggles.bucket_rebuild=on"}));  // off with one rank
  const std::string plan = read("out/plan.yaml");
  ASSERT_THAT(plan, HasSubstr("\n  bucket_rebuild: on                    # off, "));
  ASSERT_THAT(plan, HasSubstr("  persistent_workers: on                # default\n"));
  const Ended longer = run({"train", "--resume", "out", "train.epochs=3"});
  EXPECT_THAT(longer.out, Not(HasSubstr("warning: these toggles were on but never ran")));
  std::string expected = plan;
  const size_t at = expected.find("  epochs: 2 ");
  EXPECT_EQ(read("out/plan.yaml"), expected.replace(at, 12, "  epochs: 3 "));
  succeed({"train", "--resume", "out", "train.epochs=4", "toggles.num_workers=0"});
  EXPECT_THAT(read("out/plan.yaml"), HasSubstr("# off, it needs num_workers\n"));
  expect_refusal({"train", "--resume", "out", "train.epochs=5", "toggles.persistent_workers=on"}, 2,
                 "command line: persistent_workers needs num_workers");
}

// Folders of older versions have no origins in env.json. A plan may have been edited by hand.
TEST_F(Resuming, AnOriginThatEnvJsonLacksIsThePlan) {
  run(tiny({"--run-dir", "out"}));
  Json env = Json::parse(read("out/env.json"));
  EXPECT_EQ(env["origins"]["train.epochs"], "command line");
  env.erase("origins");
  write("out/env.json", env.dump());
  succeed({"train", "--resume", "out", "train.epochs=3"});
  std::string plan = read("out/plan.yaml");
  EXPECT_THAT(plan, AllOf(StartsWith("name: run "), HasSubstr("# out/plan.yaml:1:1\n")));
  write("out/plan.yaml", plan.replace(plan.find("  epochs: 3 "), 12, "  epochs: -2"));
  expect_refusal({"train", "--resume", "out"}, 2, "out/plan.yaml:");
}

// ---- dry runs

TEST_F(Resuming, ADryRunChecksWhatTheRunWouldDoAndChangesNothing) {
  run(tiny({}));
  const std::string before = read("runs/run/metrics.jsonl");
  EXPECT_THAT(succeed(tiny({"--dry-run", "--resume", "train.epochs=3"})),
              AllOf(HasSubstr("resume: runs/run/checkpoints/step_00000008.safetensors"),
                    HasSubstr("dry run: 4 steps of 16 samples would follow")));
  EXPECT_THAT(run(tiny({"--dry-run", "--resume"})).out, HasSubstr("nothing to do"));
  expect_refusal(tiny({"--dry-run", "--resume", "seed=2"}), 2, "cannot change seed: 1 -> 2");
  expect_refusal(tiny({"--dry-run", "--run-dir", "runs/run"}), 2, "already holds a run");
  expect_refusal(tiny({"--dry-run", "train.weights=none.safetensors"}), 4, "none.safetensors");
  EXPECT_THAT(succeed(tiny({"--dry-run", "--run-dir", "runs/run", "--overwrite"})),
              HasSubstr("dry run: 8 steps of 16 samples would follow"));
  EXPECT_EQ(read("runs/run/metrics.jsonl"), before);
  EXPECT_EQ(checkpoints().size(), 2u);
  EXPECT_FALSE(fs::exists(folder_ / "runs/run-2"));
}

// ---- times

TEST_F(Resuming, CountsTheTimeOfAllItsProcesses) {
  run(tiny({"train.epochs=12"}));
  const Json first = rows("runs/run").back();
  run(tiny({"train.epochs=13", "--resume"}));
  const Json whole = rows("runs/run").back();
  for (const char* part : {"load_s", "step_s", "eval_s"})
    EXPECT_GT(whole[part], first[part]) << part;
}

// ---- rows

TEST_F(Resuming, AfterKillingEndsWithTheSameBitsAndWritesEachRowOnceWithTheSameLosses) {
  const struct {
    std::string checkpoint;  // iterations between two
    std::string kill_after;
    std::string resumes_from;
  } cases[] = {
      {"3", "epoch: 3, iter: 2/4", "step_00000009"},      // in the middle of a log window
      {"4", "eval: epoch: 2, step: 8", "step_00000008"},  // between an epoch and its evaluation
  };
  for (const auto& [checkpoint, kill_after, resumes_from] : cases) {
    SCOPED_TRACE(kill_after);
    fs::remove_all(folder_ / "runs");
    const Args args = tiny({cat("ckpt={every: 0, every_iters: ", checkpoint, "}"), "train.epochs=4",
                            "optimizer={momentum: 0.9}", "toggles={async_checkpoint: off}",
                            "log={every: 2, tensorboard: true}"});
    const std::string whole = succeed(args);
    // So slow that the signal comes before the next save.
    const Args slow = with(args, {"data.sim_latency_us=200000"});
    EXPECT_EQ(run_until(kill_after, SIGKILL, slow).code, 137);
    const std::string out = succeed(with(args, {"--resume"}));
    EXPECT_THAT(out, AllOf(HasSubstr(resumes_from), HasSubstr("metrics.jsonl: dropped ")));
    EXPECT_EQ(hash_in(out), hash_in(whole));
    EXPECT_EQ(results("runs/run-2"), results("runs/run"));
    EXPECT_FALSE(fs::exists(folder_ / "runs/run-3"));
  }
}

// ---- branches

TEST_F(Resuming, ABranchChangesWhatItIsMadeForAndPrintsEachChange) {
  const std::string file = trained_to(4);
  const auto branch = [&](const std::string& change) {
    return Args{"train", "--resume", file, change};
  };
  expect_refusal(
      branch("optimizer.name=adam"), 2,
      "cannot change optimizer.name: sgd -> adam: the checkpoint holds the state of the "
      "other optimizer; undo the change, or start a new run from the weights alone with");
  expect_refusal(branch("model={name: mlp, hidden: [8]}"), 2, "state of the other model");
  expect_refusal(branch("optimizer.momentum=0"), 4, "unexpected: optimizer/momentum.1.bias");
  expect_refusal(branch("train.weights=x.safetensors"), 2, "weights come from the checkpoint");
  EXPECT_FALSE(fs::exists(folder_ / "runs/run-2"));
  EXPECT_THAT(succeed({"train", "--resume", file, "--run-dir", "branch", "train.epochs=3",
                       "optimizer.lr=0.5", "optimizer.weight_decay=0.1", "loss.label_smoothing=0.1",
                       "schedule.name=cosine", "seed=5"}),
              AllOf(HasSubstr("resume: changed optimizer.lr: "), HasSubstr(" -> 0.5\n"),
                    HasSubstr("resume: changed optimizer.weight_decay: 0 -> 0.1\n"),
                    HasSubstr("resume: changed loss.label_smoothing: 0 -> 0.1\n"),
                    HasSubstr("resume: changed schedule.name: constant -> cosine\n"),
                    HasSubstr("resume: changed seed: 1 -> 5\n"), HasSubstr("run folder: branch\n"),
                    HasSubstr("epoch: 2, iter: 2/4"), HasSubstr("done: 12 steps, 3 epochs")));
  // A checkpoint named from its own folder has the plan of its run.
  succeed({"train", "--resume", "step_00000004.safetensors", "--run-dir",
           (folder_ / "elsewhere").string(), "optimizer.lr=0.01"},
          [&] { fs::current_path(folder_ / "runs/run/checkpoints"); });
  EXPECT_TRUE(fs::exists(folder_ / file));
}

// With 17 samples a batch an epoch still has 4 updates, of other samples.
TEST_F(Resuming, ABranchWithOtherDataOrAnotherOrderBeginsTheEpochAgain) {
  const std::string file = trained_to(6);
  for (const std::string order :
       {"seed=5", "data.shuffle=false", "data.batch_size=17", "toggles={device_randperm: off}"})
    EXPECT_THAT(
        succeed({"train", "--resume", file, order}),
        AllOf(HasSubstr("epoch 2 begins, and step 6 counts as step 4"), HasSubstr("2 epochs")))
        << order;
  EXPECT_THAT(run({"train", "--resume", file, "optimizer.lr=0.01"}).out, Not(HasSubstr("begins")));
  EXPECT_THAT(
      succeed({"train", "--resume", file, "data.train_size=160", "data.batch_size=8", "--run-dir",
               "other"}),
      AllOf(HasSubstr("resume: changed data.train_size: 64 -> 160"),
            HasSubstr("resume: changed training set: 64 samples, crc "),
            HasSubstr("an epoch has 20 updates of 8 samples now; epoch 2 begins, and step 6 "
                      "counts as step 20"),
            HasSubstr("epoch: 2, iter: 2/20"), HasSubstr("done: 40 steps, 2 epochs")));
  EXPECT_EQ(checkpoints("other").back(), "step_00000040.safetensors");
}

// A resumed run keeps the target that it has reached. A branch has a target of its own; with that
// of its run, it would end before its first update.
TEST_F(Resuming, ATargetStaysReachedExceptInABranch) {
  run(tiny({"target={metric: loss, value: 9, stop: true}"}));
  EXPECT_THAT(succeed({"train", "--resume", "runs/run/checkpoints/step_00000004.safetensors",
                       "optimizer.lr=0.01"}),
              HasSubstr("done: 8 steps, 2 epochs"));
  EXPECT_THAT(succeed({"train", "--run-dir", "runs/run", "--resume", "target.stop=false"}),
              AllOf(HasSubstr("done: 8 steps, 2 epochs"),
                    HasSubstr("target: loss 9 reached; time-to-target: "),
                    HasSubstr(" 64 samples, 1 epoch\n")));
}
