// trainer profile and diagnose on a GPU, from CUPTI's records of a step.
#include <gmock/gmock.h>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include "core/config/config.h"
#include "labs/diagnose/diagnosis.h"
#include "labs/profile/analysis.h"
#include "labs/profile/recorder.h"
#include "tests/cuda_host/operations.h"
#include "tests/cuda_host/vendor/cupti.h"
#include "tests/cuda_host/vendor/vendor.h"
#include "tests/labs/trace_rules.h"
#include "tests/place.h"
#include "tests/trainer/program.h"
#include "tests/trainer/runs.h"
#include "trainer/state/run_record.h"

using namespace bellows;
using cuda_host::cupti_library;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

const Names kPlain = {"toggles={vendor_kernels: off, batch_lanes: off}"};

Config lenet(const Names& more = {}) {
  Names words = {
      "model=lenet",       "data={name: digits, train_size: 48, test_size: 16, batch_size: 4}",
      "device=cuda",       "threads.threads=1",
      "train.max_iters=6", "log.every=6"};
  words.insert(words.end(), more.begin(), more.end());
  Config config = make_config({parse_overrides(words)});
  config.plan.eval.every = config.plan.ckpt.every = 0;
  return config;
}

// Updates 2 to 5.
Recording record(const Names& more = {}) {
  Plan plan = lenet(more).plan;
  plan.profile = {.window = {2, 6}, .exit_after = true};
  Session session(plan);
  Recorder recorder(session, 2, 6);
  run(session, [&](const Position& at) { recorder.after_update(at); });
  return recorder.take();
}

double device_s(const Recording& recording) {
  double ns = 0;
  for (const Activity& a : *recording.activities)
    if (a.thread == recording.thread) ns += double(a.end_ns - a.begin_ns);
  return 1e-9 * ns;
}

class ProfileOnDevice : public testing::Test {
 protected:
  ~ProfileOnDevice() override {
    cuda_host::slow_op = {};
    cuda_host::vendor_library.faults.clear();
    cupti_library.missing = cupti_library.refuses = false;
  }
};

}  // namespace

TEST_F(ProfileOnDevice, EachOpHasItsTimeOnTheDeviceAndSumsAgree) {
  const Recording recording = record();
  const Json profile = analyze(recording, {});
  EXPECT_EQ(profile["times"], "time on the device");
  const double updates = profile["updates"], update_s = profile["update_s"];
  ASSERT_EQ(updates, 4);
  const auto sum = [&](const char* list, const char* key) {
    double total = 0;
    for (const Json& row : profile[list]) total += row[key].get<double>();
    return total;
  };
  std::set<std::string> without;
  for (const Json& row : profile["ops"])
    if (row["s"] == 0) without.insert(cat(plain(row["op"]), row["backward"] ? ", back" : ""));
  EXPECT_EQ(without, (std::set<std::string>{"flatten", "flatten, back", "zero_grad"}))
      << "they run no kernel";
  EXPECT_THAT(profile["ops"], testing::SizeIs(testing::Ge(2U * 4U)))
      << "conv2d, max_pool2d, linear, loss, ...";
  const double modules = sum("modules", "forward_s") + sum("modules", "backward_s");
  const double phases = sum("phases", "device_s"), ops = sum("ops", "s"), idle = sum("gaps", "s");
  const double all = device_s(recording);
  EXPECT_NEAR(updates * phases, all, 0.01 * all) << "the rest was queued between updates";
  EXPECT_LE(ops, all);
  EXPECT_GT(ops, 0.8 * all);
  EXPECT_GT(updates * modules, 0.3 * all);
  EXPECT_LT(updates * modules, all);
  // One stream computes, so busy and idle time are all the time there is; copies may overlap.
  EXPECT_NEAR(all / updates + idle, update_s, 0.05 * update_s);
}

TEST_F(ProfileOnDevice, ModulesNameTheKernelsThatTheyQueued) {
  cuda_host::slow_op = {"max_pool2d", 300};  // far longer than any other, on a busy machine too
  const Json profile = analyze(record(kPlain), {});
  for (const Json& row : profile["ops"])
    EXPECT_EQ(row["mean_s"] >= 0.3, row["op"] == "max_pool2d" && !row["backward"]) << row;
  for (const Json& row : profile["modules"])
    EXPECT_EQ(row["forward_s"] >= 0.3, plain(row["module"]).starts_with("pool")) << row;
}

TEST_F(ProfileOnDevice, TheTraceHasATrackForEachStreamAndKeepsTheRules) {
  const Recording recording = record({"toggles={pin_memory: on, non_blocking: on}"});
  const Json trace = chrome_trace(recording);
  EXPECT_THAT(trace_complaints(trace), IsEmpty());
  std::map<int, std::string> names;
  std::map<std::string, int> kinds;
  std::map<int, int> correlated;  // HolisticTraceAnalysis drops a kernel without its call
  std::set<int> streams;
  int arrows = 0;
  for (const Json& e : trace["traceEvents"]) {
    const std::string ph = e["ph"], name = e["name"];
    arrows += ph == "f" && name == "ac2g";
    if (ph == "X" && e["args"].contains("correlation")) ++correlated[e["args"]["correlation"]];
    if (e["pid"] != 0) continue;
    if (ph == "M" && name == "thread_name") names[e["tid"]] = e["args"]["name"];
    if (ph == "X") ++kinds[e["cat"]], streams.insert(e["tid"].get<int>());
    if (ph == "X" && e["args"].value("Module Hierarchy", "") == "conv2") ++kinds["conv2"];
  }
  EXPECT_GE(streams.size(), 2U) << "compute and copies";
  for (const int stream : streams) EXPECT_EQ(names[stream], cat("stream ", stream));
  EXPECT_EQ(kinds["kernel"] + kinds["gpu_memcpy"] + kinds["gpu_memset"],
            std::ssize(*recording.activities));
  EXPECT_GE(kinds["gpu_memcpy"], 4) << "a batch each";
  EXPECT_GE(kinds["conv2"], 4 * 2);
  EXPECT_GE(arrows, kinds["kernel"]);
  EXPECT_GE(std::ssize(correlated), kinds["kernel"]);
  for (const auto& [id, events] : correlated) EXPECT_EQ(events, 2) << "kernel and call " << id;
}

// ---- gaps

// One update of 1000 ns: the host queues what the device runs.
static Recording synthetic() {
  Recording r;
  r.thread = 1;
  r.device = Device::cuda;
  r.steps = {{0, 0, 1000}};
  r.spans = {{"input", "", 1, 0, 100},
             {"linear", "fc", 1, 110, 210},
             {"forward", "", 1, 100, 220},
             {"synchronize", "", 1, 800, 950},
             {"ProfilerStep#0", "", 1, 0, 960}};
  RecordedOp op{"linear", "fc", {4, 2}, {{{4, 3}, DType::f32, true}, {{2, 3}, DType::f32, true}}};
  op.end_ns = 200;
  r.ops = {op};
  r.activities = {{{Activity::copy, "copy to device", 2, 30, 60, 7, 5, 6},
                   {Activity::kernel, "k", 1, 150, 400, 1, 120, 130},
                   {Activity::kernel, "inside of another", 3, 160, 170, 1, 215, 216},
                   {Activity::kernel, "k", 3, 300, 500, 1, 216, 217},
                   {Activity::kernel, "launched early", 1, 390, 420, 1, 217, 218},
                   {Activity::kernel, "k", 1, 700, 900, 1, 190, 195}}};
  return r;
}

TEST(GapsOnDevice, AreWhatNoStreamCoversByWhatTheHostDoes) {
  const Json profile = analyze(synthetic(), {});
  std::map<std::string, double> ns;
  for (const Json& gap : profile["gaps"])
    ns[cat(plain(gap["cause"]), ": ", plain(gap["in"]))] += 1e9 * gap["s"].get<double>();
  const std::map<std::string, double> expected = {
      {"input: input", 30 + 40}, {"host: forward", 10},     {"launch: linear", 40},
      {"host: step", 200 + 10},  {"sync: synchronize", 50}, {"host: loop", 40}};
  EXPECT_EQ(ns.size(), expected.size());
  for (const auto& [gap, length] : expected) EXPECT_NEAR(ns[gap], length, 1e-6) << gap;
  ASSERT_EQ(profile["ops"].size(), 1U);
  EXPECT_NEAR(profile["ops"][0]["s"], 450e-9, 1e-15) << "both kernels of the op, not the others'";
  EXPECT_EQ(profile["phases"][0]["device_s"], 0) << "another thread queued the copy";
  EXPECT_THAT(trace_complaints(chrome_trace(synthetic())), IsEmpty());
}

// ---- without

TEST_F(ProfileOnDevice, NoProfileSubscribesNothing) {
  const int64_t before = cupti_library.calls;
  run(lenet().plan);
  EXPECT_EQ(cupti_library.calls, before);
  record();
  EXPECT_GT(cupti_library.calls, before);
  EXPECT_EQ(cupti_library.enabled, 0);
}

TEST_F(ProfileOnDevice, WithoutCuptiOneLineAndNoTimesOfTheDevice) {
  for (bool* const fault : {&cupti_library.missing, &cupti_library.refuses}) {
    *fault = true;
    testing::internal::CaptureStderr();
    const Recording recording = record();
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                testing::MatchesRegex("warning: [^\n]*times of the device are absent\n"));
    *fault = false;
    const Json profile = analyze(recording, {});
    EXPECT_EQ(profile["times"], "time on the host");
    EXPECT_THAT(text_of(profile), HasSubstr("ops, time on the host"));
    EXPECT_THAT(trace_complaints(chrome_trace(recording)), IsEmpty());
  }
  cupti_library.missing = true;
  EXPECT_TRUE(measure(lenet(), 0.1).ops.empty()) << "no rule takes the host's times for the GPU's";
}

// ---- the rules

TEST_F(ProfileOnDevice, ASlowKernelIsHot) {
  cuda_host::slow_op = {"max_pool2d", 300};
  const Json d = diagnose(measure(lenet(kPlain), 0.1));
  ASSERT_FALSE(d["findings"].empty());
  EXPECT_EQ(d["findings"][0]["rule"], "kernel_hot");
  EXPECT_THAT(plain(d["findings"][0]["text"]), HasSubstr("max_pool2d takes"));
}

// Each call of a library holds up the host, and with it the device. A graph would not make them.
TEST_F(ProfileOnDevice, ASlowHostKeepsTheDeviceWaiting) {
  cuda_host::vendor_library.faults["first"].slow_ms = 100;
  const Json d = diagnose(measure(lenet({"toggles.cuda_graph=off"}), 0.1));
  ASSERT_FALSE(d["findings"].empty());
  EXPECT_EQ(d["findings"][0]["rule"], "host_bound");
  EXPECT_THAT(plain(d["findings"][0]["text"]), HasSubstr("the GPU runs nothing"));
  EXPECT_THAT(d["findings"][0]["remedies"], Contains("toggles.cuda_graph=on"));
}

// ---- the program

namespace {
class ProfileProgramOnDevice : public Program {
 protected:
  std::string program() const override {
    return build_dir() + "/tests/cuda_host/trainer_on_stand_in";
  }
};
}  // namespace

TEST_F(ProfileProgramOnDevice, ShowsTimesAndStreamsOfTheChosenGpu) {
  const Ended ended = run({"profile", "--steps", "2:4", "--trace", "t.json", "--json", "p.json",
                           "model=lenet", "data={name: digits, train_size: 32, batch_size: 4}",
                           "device=cuda:1", "toggles.cuda_graph=on"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  for (const char* text : {"device ms", "ops, time on the device", "cuda_graph: off here",
                           "gaps: the device runs nothing"})
    EXPECT_THAT(ended.out, HasSubstr(text));
  EXPECT_EQ(Json::parse(read(folder_ / "p.json"))["times"], "time on the device");
  const Json trace = Json::parse(read(folder_ / "t.json"));
  EXPECT_TRUE(std::ranges::any_of(trace["traceEvents"], [](const Json& e) {
    return e["pid"] == 1 && e["name"] == "thread_name" && e["args"]["name"] == "stream 1";
  }));
  EXPECT_EQ(run({"report", "p.json"}).code, 0);
}
