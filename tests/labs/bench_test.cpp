// trainer bench: its tables, and the real program on tiny sizes.
#include "labs/bench/bench.h"
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include "core/base/json.h"
#include "core/config/visitor.h"
#include "core/device/device.h"
#include "core/device/timer.h"
#include "models/losses/loss.h"
#include "ops/elementwise.h"
#include "tests/trainer/program.h"

using namespace bellows;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// ---- timing

TEST(Timing, InterleavesCallsInAlternatingOrder) {
  std::string order;
  const auto note = [&](char name) {
    return [&order, name] {
      if (order.empty() || order.back() != name) order += name;
    };
  };
  const std::vector<Timing> times = time_interleaved({note('A'), note('B'), note('C')}, Device::cpu,
                                                     {.rounds = 3, .slice_s = 1e-5});
  EXPECT_EQ(order,
            "ABC"
            "ABCBABC");
  for (const Timing& timing : times) {
    EXPECT_EQ(timing.rounds.size(), 3U);
    EXPECT_LE(timing.fastest(), timing.median());
    EXPECT_LE(timing.median(), timing.slowest());
  }
}

TEST(Timing, TextHasThreeDigitsAndAUnit) {
  EXPECT_EQ(time_text(1.2345e-7), "123 ns");
  EXPECT_EQ(time_text(9.996e-6), "10.0 us");
  EXPECT_EQ(time_text(0.00134), "1.34 ms");
  EXPECT_EQ(time_text(2), "2.00 s");
  EXPECT_EQ(rate_text(2.94e11, "FLOP/s"), "294 GFLOP/s");
  EXPECT_EQ(rate_text(7.88e14, "FLOP/s"), "788 TFLOP/s");
}

// ---- the program

TEST_F(Program, BenchPrintsATableForEachOfItsBenchmarks) {
  const auto prints = [&](const Args& args, const std::vector<const char*>& texts) {
    const std::string out = succeed(with({"bench"}, with(args, {"--device", "cpu"})));
    for (const char* text : texts) EXPECT_THAT(out, HasSubstr(text));
    return out;
  };
  const std::string products =
      prints({"matmul", "--batch", "2", "--m", "8", "--k", "16", "--n", "24"},
             {"[2,8,16] x [16,24] on cpu: ", "FP32", "FP64", "GFLOP/s",
              "not on this CPU, but on a GPU: TF32"});
  const bool has_bf16 = products.find("BF16  ") != std::string::npos;
  EXPECT_EQ(products.find(", BF16\n") == std::string::npos, has_bf16) << products;
  prints({"matmul", "--source-table", "--rounds", "1"},
         {"CUDA 10.1", "1.340", "0.267", "5.02x", "5.04x", "1.05x", "1.01x",
          "N is not a multiple of 8", "but on a GPU: TF32"});
  prints({"matmul", "--align"}, {"TF32          not available                 always; best with "
                                 "multiples of 4, on A100 of 32",
                                 "no Tensor Cores"});
  prints({"randperm", "--elements", "1000"},
         {"1000 elements", "serial shuffle on the host ", "keyed, in parallel ", "elements/s\n"});
  EXPECT_THAT(prints({"op", "cross_entropy"}, {"fused", "composed"}), Not(HasSubstr("plain")));
  prints({"op", "matmul"}, {"[130,150] [150,70]   plain", "vendor", "us"});
  prints({"dispatch"}, {"no-op kernel", "add, grad", "backward of one affine"});
}

TEST_F(Program, BenchRefusesWhatItCannotDo) {
  expect_refusal({"bench", "matmull"}, 2, "the nearest one is 'matmul'");
  expect_refusal({"bench", "op", "matmull"}, 2, "the nearest is 'matmul'");
  expect_refusal({"bench", "matmul", "--m", "0"}, 2, "--m");
  expect_refusal({"bench", "randperm", "--elements", "0"}, 2, "--elements");
  expect_refusal({"bench", "matmul", "--align", "--source-table"}, 2, "--align");
  expect_refusal({"bench", "matmul", "--device", "tpu"}, 2, "--device");
  if (device_count(Device::cuda) > 0) GTEST_SKIP() << "here is a GPU";
  expect_refusal({"bench", "h2d"}, 2, "device cuda: ");
  expect_refusal({"bench", "matmul", "--device", "cuda"}, 2, "device cuda: ");
}

TEST_F(Program, BenchAllreduceStartsTwoRanksAndPutsGloosCallBesideOurs) {
  EXPECT_THAT(succeed({"bench", "allreduce", "--max-mb", "0.01", "--rounds", "2"}),
              AllOf(HasSubstr("over 2 ranks: medians of 2 rounds in turns"), HasSubstr("\n1 KiB "),
                    HasSubstr("\n8 KiB "), Not(HasSubstr("64 KiB"))));
}

// Two ranks send as much as the message has; three send 4/3 of it.
TEST_F(Program, BenchAllreduceRunsUnderALauncherAndPrintsJson) {
  const std::string out = succeed({"launch", "--ranks", "3", "--", "bench", "allreduce", "--max-mb",
                                   "0.001", "--rounds", "3", "--json"});
  const Json object = Json::parse(out);
  EXPECT_EQ(object["ranks"], 3);
  EXPECT_GT(object["later_s"], 0);
  ASSERT_EQ(object["sizes"].size(), 1U);
  EXPECT_EQ(object["sizes"][0]["bytes"], 1024);
  for (const char* side : {"ours_s", "gloo_s"}) {
    EXPECT_EQ(object["sizes"][0][side].size(), 3U);
    for (const Json& seconds : object["sizes"][0][side]) EXPECT_GT(seconds.get<double>(), 0);
  }
  expect_refusal({"launch", "--ranks", "1", "--", "bench", "allreduce"}, 2,
                 "needs at least two ranks");
}

// ---- parts of a run

namespace {
struct PlantedOptions {
  int64_t us = 0;
};
void visit(Visitor& v, PlantedOptions& o) { v("us", o.us, "sleep of each call"); }
}  // namespace
static Tensor planted_loss(const PlantedOptions& o, const LossInput& in) {
  std::this_thread::sleep_for(std::chrono::microseconds(o.us));
  return mean(square(errors_of("planted_slow", in).each));
}
static const AddEntry<LossFunction> planted("planted_slow", "sleeps", planted_loss);

// Runs a benchmark in this process, which knows the planted loss.
static std::string in_this_process(const std::string& name, const Arguments& args) {
  testing::internal::CaptureStdout();
  const int code = run_verb(benches().at(name), args, "trainer bench");
  const std::string out = testing::internal::GetCapturedStdout();
  EXPECT_EQ(code, 0) << out;
  return out;
}

// The row that starts with that name, without it.
static std::string row(const std::string& out, const std::string& name) {
  const size_t at = out.find("\n" + name + " ");
  EXPECT_NE(at, std::string::npos) << name << " is not in\n" << out;
  if (at == std::string::npos) return "";
  const size_t begin = at + 1 + name.size();
  return out.substr(begin, out.find('\n', begin) - begin);
}

TEST(BenchLoss, NamesThePlantedSlowThirdTerm) {
  const std::string out = in_this_process(
      "loss",
      {"device=cpu", "threads.threads=1", "data={name: digits, train_size: 64, batch_size: 16}",
       "loss={name: sum, terms: [{name: cross_entropy}, {name: l1, weight: 0.5}, {name: "
       "planted_slow, us: 5000}]}"});
  EXPECT_THAT(
      out, AllOf(HasSubstr("\nmodel "), HasSubstr("\nloss.cross_entropy "),
                 HasSubstr("\nloss.l1 x 0.5 "), HasSubstr("slowest term: loss.planted_slow, 9")));
  EXPECT_THAT(row(out, "loss.planted_slow"),
              testing::MatchesRegex(" +([5-9]|[1-9][0-9]+)\\.[0-9]+ ms .*"));
}

TEST_F(Program, BenchOpRepeatsAModuleOfAModel) {
  const auto repeat = [&](const std::string& path, const Args& more = {}) {
    const std::string out = succeed(with(
        {"bench", "op", "--repeat", path, "device=cpu", "data.train_size=64", "data.batch_size=16"},
        more));
    EXPECT_GT(std::stod(row(out, "forward, ns")), 0);
    EXPECT_EQ(std::stod(row(out, "syncs")), 0);
    return out;
  };
  const std::string conv = repeat("conv2", {"toggles=none"});
  EXPECT_THAT(conv, HasSubstr("run: conv2 (conv2d) of [16,6,14,14] on cpu: "));
  EXPECT_EQ(std::stod(row(conv, "ops")), 1);
  EXPECT_GT(std::stod(row(conv, "of them by the system")), 0);
  const Args cached = {"toggles.caching_allocator=on"};
  EXPECT_EQ(std::stod(row(repeat("fc1", cached), "of them by the system")), 0);
  // A module that holds a shortcut runs only inside its block.
  const std::string resnet = "model={name: resnet18, width: 4}";
  EXPECT_THAT(repeat("layer1.0.bn2", {resnet}), HasSubstr(" (residual) of "));
  EXPECT_THAT(repeat("layer1.0.bn2", {resnet, "toggles=none"}), HasSubstr(" (batch_norm) of "));
  expect_refusal({"bench", "op", "--repeat", "conv3", "device=cpu"}, 2, "the nearest is 'conv");
}

TEST_F(Program, BenchLoaderListsItsPartsInOrderWithTheirSum) {
  const std::string out =
      succeed({"bench", "loader",
               "data={name: shapes_jpeg, train_size: 128, batch_size: 64, "
               "transforms: [{name: resize, size: 72}, {name: center_crop, size: 64}, "
               "random_flip, normalize]}"});
  size_t before = 0;
  double sum = 0;
  for (const char* part :
       {"reading", "decoding", "resize", "center_crop", "random_flip", "normalize"}) {
    const size_t at = out.find(cat("\n", part, " "));
    ASSERT_NE(at, std::string::npos) << part;
    EXPECT_GT(at, before) << part;
    before = at;
    sum += std::stod(row(out, part));
  }
  EXPECT_NEAR(std::stod(row(out, "sum")), sum, 10);  // each is rounded
  const size_t per_second = out.rfind("%\n") + 2;
  const double rate = 1e9 / std::stod(row(out, "loader"));
  EXPECT_NEAR(std::stod(out.substr(per_second)), rate, 0.01 * rate);
}

// ---- cores

TEST_F(Program, BenchOversubCountsTheThreadsOfRealProcesses) {
  const std::string out =
      succeed({"bench", "oversub", "--most", "3", "--seconds", "0.05", "--rounds", "1"});
  std::istringstream lines(out);
  std::string line;
  std::getline(lines, line), std::getline(lines, line);
  std::vector<std::string> counted;
  while (std::getline(lines, line) && !line.starts_with("more")) {
    std::istringstream cells(line);
    int64_t processes = 0, threads = 0, all = 0;
    double products = 0;
    cells >> processes >> threads >> all >> products;
    counted.push_back(cat(processes, "x", threads, "=", all));
    EXPECT_GT(products, 0) << line;
  }
  EXPECT_THAT(counted, ElementsAre("1x1=1", "1x2=2", "1x3=3", "2x1=2", "2x2=4", "2x3=6", "3x1=3",
                                   "3x2=6", "3x3=9"));
}
