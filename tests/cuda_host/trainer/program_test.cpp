// Device errors in the real program: one clear line and the documented exit code.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include "core/base/json.h"
#include "tests/place.h"
#include "tests/trainer/rank_programs.h"

using namespace bellows;

namespace {

// The trainer linked with cuda_host, or one whose kernel writes past its output.
class ProgramOnDevice : public RankPrograms {
 protected:
  std::string program() const override { return build_dir() + "/tests/cuda_host/" + name_; }
  // Drops the lines that cuda_host prints; the program itself must print exactly one.
  void expect_end(const Args& args, int code, const std::string& text) {
    const Ended ended = run(args);
    EXPECT_EQ(ended.code, code) << ended.err;
    std::string own;
    for (const std::string& line : lines_of(ended.err))
      if (!line.starts_with("cuda_host: ")) own += line + "\n";
    EXPECT_THAT(own, testing::MatchesRegex("trainer: [^\n]*\n"));
    EXPECT_THAT(own, testing::HasSubstr(text));
  }
  // Runs two ranks on GPU 0. Returns what rank 0 printed, or the errors of both.
  std::string run_two_ranks(const Args& more) {
    const std::vector<Ended> ranks = run_ranks(2, tiny(with({"device=cuda:0"}, more)));
    return ranks[0].code || ranks[1].code ? ranks[0].err + ranks[1].err : ranks[0].out;
  }
  std::string name_ = "trainer_on_stand_in";
};

}  // namespace

// cuda_host has two GPUs, and refuses work of a thread that is on another one than the process.
TEST_F(ProgramOnDevice, UsesTheChosenGpuInEveryThread) {
  const Args on_second = {"device=cuda:1",
                          "toggles={pin_memory: on, non_blocking: on, num_workers: 2}"};
  EXPECT_THAT(succeed(tiny(on_second)), testing::HasSubstr("device: cuda:1\n"));
}

TEST_F(ProgramOnDevice, RefusesAGpuThatIsNotThere) {
  expect_end(tiny({"device=cuda:2"}), 2,
             "device: cuda:2, but the number of GPUs is 2, counted from cuda:0");
}

// The kernels of device_tensors write a batch where the graph reads it, under `ab` too.
TEST_F(ProgramOnDevice, AnArmFeedsItsGraphAsTrainingDoes) {
  write("c.yaml",
        "model: {name: mlp, hidden: [8]}\n"
        "data: {name: digits, train_size: 64, batch_size: 8}\n"
        "toggles: {caching_allocator: on, cuda_graph: on}\n");
  succeed({"ab", "--config", "c.yaml", "--toggle", "device_tensors", "--processes", "1", "--blocks",
           "1", "--steps", "4", "--warmup", "8", "--report", "r.md", "device=cuda"});
  const Json counters = Json::parse(read("r.json")).at("on").at(0).at("counters_per_step");
  const Json copied = counters.at("graph.copied_input_bytes");
  EXPECT_GT(copied.at(0), 0);
  EXPECT_EQ(copied.at(1), 0);
}

// ---- ranks

// NCCL's collectives of one rank change nothing, eager and inside of the graph.
TEST_F(ProgramOnDevice, TrainsTheSameParametersWithNcclAndInAGraph) {
  std::set<std::string> hashes;
  for (const char* backend : {"single", "nccl"})
    for (const char* graph : {"off", "on"})
      hashes.insert(
          hash_in(succeed(tiny({"device=cuda", cat("dist.backend=", backend),
                                cat("toggles={caching_allocator: on, cuda_graph: ", graph, "}"),
                                "--run-dir", cat("runs/", backend, graph)}))));
  EXPECT_EQ(hashes.size(), 1);
}

TEST_F(ProgramOnDevice, TwoRanksOnOneGpuTalkThroughPinnedMemory) {
  const std::string in_buckets = run_two_ranks({});
  EXPECT_THAT(in_buckets,
              testing::HasSubstr("ranks: 2 (gloo, shared memory), global batch 32 = 2 x 16"));
  const std::string one_by_one = run_two_ranks(
      {"toggles={bucketed_allreduce: off, overlap_allreduce: off}", "--run-dir", "runs/other"});
  EXPECT_EQ(hash_in(in_buckets), hash_in(one_by_one));
}

TEST_F(ProgramOnDevice, TwoRanksOnOneGpuRefuseAGraph) {
  EXPECT_THAT(run_two_ranks({"toggles={cuda_graph: on}"}),
              testing::HasSubstr("cuda_graph: the collectives of gloo run on the host, so no graph "
                                 "can capture an update of several ranks; write  "
                                 "toggles.cuda_graph: off"));
}

TEST_F(ProgramOnDevice, OutOfMemoryEndsItWithSix) {
  expect_end(tiny({"device=cuda", "model={name: mlp, hidden: [500000]}"}), 6,
             "layer 'fc1': out of cuda memory: asked for 1495.4 MiB");
}

// The winners of 128 images, a byte each, fill a whole number of blocks of 512 bytes.
TEST_F(ProgramOnDevice, AnIllegalAccessEndsItWithNineAndNamesTheOp) {
  name_ = "trainer_off_by_one";
  expect_end(tiny({"device=cuda", "toggles={caching_allocator: off}",
                   "model={name: layers, layers: [max_pool2d, flatten, {name: linear, out: 10}]}",
                   "data={name: digits, train_size: 128, test_size: 20, batch_size: 128}"}),
             9, "the last kernels were max_pool2d in module '0'");
}
