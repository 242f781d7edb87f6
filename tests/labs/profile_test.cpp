// trainer profile: what it records of real updates, and what it makes of it.
#include <gmock/gmock.h>
#include <sched.h>
#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>
#include "autograd/backward.h"
#include "core/config/config.h"
#include "core/device/topology.h"
#include "labs/profile/analysis.h"
#include "labs/profile/recorder.h"
#include "plan/toggle.h"
#include "tests/trainer/program.h"
#include "tests/trainer/runs.h"
#include "trainer/state/run_record.h"

using namespace bellows;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

// LeNet on digits, in batches of 16 unless `batch` is larger.
static Plan lenet(const std::vector<std::string>& more = {}, int batch = 16) {
  std::vector<std::string> words = {
      "model=lenet",
      cat("data={name: digits, train_size: ", 25 * batch, ", batch_size: ", batch, "}"),
      "device=cpu",
      "threads.threads=1",
      "train.max_iters=20",
      "log.every=10",
      "toggles.batch_lanes=off"};
  words.insert(words.end(), more.begin(), more.end());
  Plan plan = make_config({parse_overrides(words)}).plan;
  plan.eval.every = plan.ckpt.every = 0;
  plan.profile = {.window = {10, 20}, .exit_after = true};
  return plan;
}

// Updates 10 to 19 of that plan, the window of the second log line.
static Recording record(const Plan& plan, const std::filesystem::path& folder = {},
                        const std::function<void(Session&)>& plant = {}) {
  Session session(plan);
  if (plant) plant(session);
  Recorder recorder(session, 10, 20);
  Log log(plan, folder, LogOutput::silent);
  Signals signals;
  train(session, log, nullptr, signals, {}, [&](const Position& at) { recorder.after_update(at); });
  return recorder.take();
}

static constexpr Ceilings kCeilings = {.f32 = 100e9, .bf16 = 0, .bytes_per_s = 10e9};

static const Json& row_of(const Json& profile, const std::string& op, bool backward,
                          const std::string& shapes) {
  for (const Json& row : profile["ops_by_operands"])
    if (row["op"] == op && row["backward"] == backward && row.value("shapes", "") == shapes)
      return row;
  fail(Exit::internal, "no ", op, " of ", shapes);
}

// ---- phases, ops, modules

class ProfileFiles : public Program {};

TEST_F(ProfileFiles, PhasesAddUpToTheBatchCostOfTheLog) {
  const Json profile =
      analyze(record(lenet({"toggles.num_workers=0", "data.sim_latency_us=5000"}, 256), folder_),
              kCeilings);
  double logged = 0, sum = 0;
  for (const Json& row : rows(folder_))
    if (row.value("step", 0) == 20 && row.contains("batch_cost")) logged = row["batch_cost"];
  const Json& phases = profile["phases"];
  for (const Json& phase : phases) {
    EXPECT_GE(phase["s"], 0) << phase;
    sum += phase["s"].get<double>();
  }
  ASSERT_GT(logged, 0);
  EXPECT_NEAR(sum, logged, 0.02 * logged);
  EXPECT_NEAR(profile["batch_cost_s"], sum, 1e-12);
  EXPECT_GE(phases[0]["s"], 0.005) << "of latency";
  EXPECT_GT(phases[2]["s"], phases[3]["s"]) << "backward takes longer than the optimizer";
}

TEST(Profile, ListsEachOpWithItsOperandsInBothDirectionsAndEachModule) {
  const Json profile = analyze(record(lenet()), kCeilings);
  const double conv = 2. * 16 * 16 * 10 * 10 * 6 * 5 * 5;
  for (const bool backward : {false, true}) {
    const Json& row = row_of(profile, "conv2d", backward, "16x6x14x14 16x6x5x5 16 -> 16x16x10x10");
    const double flop = row["flop"], s = row["s"];
    EXPECT_EQ(row["calls"], 10);
    EXPECT_EQ(flop, 10 * conv * (backward ? 2 : 1));
    EXPECT_EQ(row["dtype"], "f32");
    EXPECT_THAT(row["layout"], testing::AnyOf("nchw", "nhwc"));
    EXPECT_GT(s, 0);
    EXPECT_GE(row["of_ceiling"].get<double>() * s, 0.9999 * flop / kCeilings.f32);
  }
  EXPECT_EQ(row_of(profile, "optimizer", false, "")["calls"], 10);
  // conv1, conv2 and three linear layers; the input has no gradient.
  const double conv1 = 2. * 16 * 28 * 28 * 6 * 5 * 5,
               linear = 2. * 16 * (400 * 120 + 120 * 84 + 840);
  const double flop = profile["flop"], update_s = profile["update_s"];
  EXPECT_EQ(flop, 2 * conv1 + 3 * conv + 3 * linear);
  EXPECT_NEAR(profile["mfu"], flop / kCeilings.f32 / update_s, 1e-9);
  double share = 0;
  for (const char* list : {"ops", "gaps"})
    for (const Json& row : profile[list]) share += row["share"].get<double>();
  EXPECT_NEAR(share, 1, 1e-9) << "ops and gaps are all the time there is";
  std::map<std::string, Json> rows;
  for (const Json& row : profile["modules"]) rows[row["module"]] = row;
  for (const char* path : {"conv1", "conv2", "fc1", "fc2", "fc3"}) {
    EXPECT_GT(rows[path]["forward_s"], 0) << path;
    EXPECT_GT(rows[path]["backward_s"], 0) << path;
  }
}

// ---- slow calls, gaps, memory

TEST(Profile, FindsAPlantedSlowCall) {
  const Json profile =
      analyze(record(lenet(), {},
                     [calls = 0](Session& session) mutable {
                       const NamedTensor& weight = session.parameters.at(2);
                       ASSERT_EQ(weight.name, "conv2.weight");
                       on_grad_ready(weight.tensor, [=](const Tensor&) mutable {
                         if (calls++ == 14)
                           std::this_thread::sleep_for(std::chrono::milliseconds(100));
                       });
                     }),
              kCeilings);
  // Other programs may delay another call.
  EXPECT_TRUE(std::ranges::any_of(profile["outliers"], [](const Json& slow) {
    return slow["op"] == "conv2d" && slow["backward"] && slow["module"] == "conv2" &&
           slow["step"] == 14 && slow["s"] > slow["median_s"].get<double>() + 0.09;
  }));
}

TEST(Profile, FindsAPlantedWaitForInput) {
  const Json profile = analyze(record(lenet({"data.sim_latency_us=20000"})), kCeilings);
  ASSERT_FALSE(profile["gaps"].empty());
  EXPECT_EQ(profile["gaps"][0]["cause"], "input");
  EXPECT_GE(profile["gaps"][0]["s"], 0.002);
  EXPECT_EQ(profile["phases"][0]["phase"], "input wait");
  EXPECT_GE(profile["phases"][0]["s"], 0.002);
}

// Two updates of 1000 ns of a module `fc` with one op, in a model without a name.
static Recording synthetic() {
  Recording r;
  r.thread = 1;
  for (const int64_t t : {0, 1000}) {
    const int64_t n = t / 1000;
    r.steps.push_back({n, t, t + 1000});
    const std::string step = cat("ProfilerStep#", n);
    r.spans.insert(r.spans.end(), {{"lock", "", 1, t + 20, t + 50},
                                   {"input", "", 1, t + 10, t + 100},
                                   {"linear", "fc", 1, t + 150, t + 260},
                                   {"model", "", 1, t + 140, t + 300},
                                   {"forward", "", 1, t + 130, t + 320},
                                   {"linear", "fc", 1, t + 400, t + 600},
                                   {"backward", "", 1, t + 350, t + 640},
                                   {"wait_for_buckets", "", 1, t + 650, t + 700},
                                   {"optimizer", "", 1, t + 700, t + 800},
                                   {"zero_grad", "", 1, t + 800, t + 810},
                                   {step, "", 1, t + 120, t + 900},
                                   {"make_batch", "", 2, t + 300, t + 1100}});
    RecordedOp op{"linear", "fc", {4, 2}, {{{4, 3}, DType::f32, true}, {{2, 3}, DType::f32, true}}};
    op.end_ns = t + 250;
    r.ops.push_back(op);
  }
  return r;
}

TEST(Profile, GivesEveryGapItsCause) {
  const Json profile = analyze(synthetic(), kCeilings);
  std::map<std::string, double> ns;
  for (const Json& gap : profile["gaps"])
    ns[cat(plain(gap["cause"]), ": ", plain(gap["in"]), plain(gap["module"]))] =
        1e9 * gap["s"].get<double>();
  const std::map<std::string, double> expected = {{"lock: lock", 30},
                                                  {"input: input", 60},
                                                  {"host: linearfc", 10},
                                                  {"host: model", 50},
                                                  {"host: forward", 30},
                                                  {"host: backward", 90},
                                                  {"sync: wait_for_buckets", 50},
                                                  {"host: step", 10 + 30 + 10 + 90},
                                                  {"host: loop", 10 + 20 + 100}};
  ASSERT_EQ(ns.size(), expected.size());
  for (const auto& [gap, length] : expected) EXPECT_NEAR(ns[gap], length, 1e-6) << gap;
  EXPECT_NEAR(profile["batch_cost_s"], 870e-9, 1e-15);
  const Json& forward = row_of(profile, "linear", false, "4x3 2x3 -> 4x2");
  EXPECT_NEAR(forward["s"], 2 * 100e-9, 1e-15) << "from the module's begin to the op's record";
  EXPECT_EQ(forward["flop"], 2 * 2. * 4 * 2 * 3);
  EXPECT_NEAR(row_of(profile, "linear", true, "4x3 2x3 -> 4x2")["s"], 2 * 200e-9, 1e-15);
}

static std::map<std::string, Json> memory_rows(const Json& profile) {
  std::map<std::string, Json> rows;
  for (const Json& row : profile["memory"]["modules"]) rows[row["module"]] = row;
  return rows;
}

TEST(Profile, NamesTheModulesThatHoldMemoryAtThePeak) {
  Recording r = synthetic();
  const char blocks[4] = {};
  const ModuleSite &fc = site_of("fc"), &outside = site_of("");
  r.held = {{"fc", 100}, {"optimizer state", 50}, {"other", 30}};
  r.allocations = {{&blocks[0], 1000, &fc, 10},       {&blocks[0], -1000, &fc, 20},
                   {&blocks[1], 700, &fc, 1200},      {&blocks[3], -20, &outside, 1210},
                   {&blocks[2], 600, &outside, 1220}, {&blocks[1], -700, &fc, 1300}};
  const Json profile = analyze(r, kCeilings);
  const Json& memory = profile["memory"];
  EXPECT_EQ(memory["step"], 1);
  EXPECT_EQ(memory["peak_bytes"], 150 + 10 + 1300);
  std::map<std::string, Json> rows = memory_rows(profile);
  EXPECT_EQ(rows["fc"]["held"], 100);
  EXPECT_EQ(rows["fc"]["tensors"], 700);
  EXPECT_EQ(rows["other"]["held"], 10) << "20 bytes from before the window are released";
  EXPECT_EQ(rows["outside of modules"]["tensors"], 600);
}

TEST(Profile, MemoryOfARealRunIsWhatItsTensorsTake) {
  const Json profile = analyze(record(lenet({"toggles.caching_allocator=off"})), kCeilings);
  std::map<std::string, Json> rows = memory_rows(profile);
  EXPECT_EQ(rows["conv2"]["held"], 4 * (16 * 6 * 25 + 16));
  EXPECT_GE(rows["relu1"]["tensors"], 4 * 16 * 6 * 28 * 28) << "its result, for backward";
}

// ---- threads

TEST(Profile, SharesTheTimeOfEachThread) {
  Recording r = synthetic();
  r.threads = {{1, "compute"}, {2, "loader/0"}, {3, "gloo"}};
  // The scheduler counts a tick of thread 3 late. Thread 4 has ended, so it has no name.
  r.thread_loads = {{1, 0, 1000, 700, 100},
                    {2, 0, 2000, 100, 0},
                    {1, 1000, 2000, 700, 100},
                    {3, 0, 2000, 2400, 0},
                    {4, 0, 2000, 50, 0}};
  const Json profile = analyze(r, kCeilings);
  const Json& threads = profile["thread_states"];
  ASSERT_EQ(threads.size(), 3u);
  const std::vector<std::tuple<std::string, double, double, double>> expected = {
      {"gloo", 1, 0, 0}, {"compute", 0.7, 0.1, 0.2}, {"loader/0", 0.05, 0, 0.95}};
  for (size_t i = 0; i < 3; ++i) {
    const auto& [name, running, runnable, waiting] = expected[i];
    EXPECT_EQ(threads[i]["name"], name);
    EXPECT_DOUBLE_EQ(threads[i]["running"], running) << name;
    EXPECT_DOUBLE_EQ(threads[i]["runnable"], runnable) << name;
    EXPECT_DOUBLE_EQ(threads[i]["waiting"], waiting) << name;
  }
  EXPECT_EQ(threads[1]["id"], 1);
  EXPECT_DOUBLE_EQ(profile["waited_for_core_share"], 0.1) << "of the compute thread";
  EXPECT_THAT(text_of(profile), HasSubstr("\nthread    running  runnable  waiting\n"
                                          "gloo      100.0 %     0.0 %    0.0 %\n"
                                          "compute    70.0 %    10.0 %   20.0 %\n"));
}

// Three threads need one core all the time, and another thread none, whatever else this machine
// runs.
TEST(Profile, TellsThreadsThatRunFromThoseWithoutACoreAndThoseThatWait) {
  std::atomic<bool> sleeps{false}, over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      pthread_setname_np(pthread_self(), "spinning");
      cpu_set_t one = {};
      CPU_SET(process_cores().front(), &one);
      EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
      while (!over) {
      }
    });
  threads.emplace_back([&] {
    pthread_setname_np(pthread_self(), "sleeping");
    timespec used = {};  // by this thread
    while (used.tv_nsec < 100'000'000) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    sleeps = true;
    sleeps.notify_all();
    over.wait(false);
  });
  sleeps.wait(false);
  const Json profile = analyze(record(lenet({"data.sim_latency_us=20000"})), kCeilings);
  over = true;
  over.notify_all();
  for (std::thread& thread : threads) thread.join();
  std::map<std::string, double> sums;  // "spinning running"
  for (const Json& row : profile["thread_states"])
    for (const char* state : {"running", "runnable", "waiting"})
      sums[cat(plain(row["name"]), " ", state)] += row[state].get<double>();
  EXPECT_GT(sums["spinning running"], 0);
  EXPECT_LT(sums["spinning running"], 1.3);
  EXPECT_GT(sums["spinning runnable"], 1.5);
  EXPECT_LT(sums["spinning waiting"], 0.5);
  EXPECT_GT(sums["sleeping waiting"], 0.9);
  EXPECT_GT(sums["compute running"], 0);
}

// ---- the program

TEST_F(Program, ProfilePrints80ColumnsAndWritesItsTables) {
  const std::string out =
      succeed({"profile", "--steps", "3:9", "--json", "p.json", "model=resnet18",
               "data={name: digits, train_size: 80, batch_size: 4}", "device=cpu"});
  expect_80_columns(out);
  EXPECT_THAT(out, AllOf(HasSubstr("\ninput wait "), HasSubstr("\nclear_grad "),
                         HasSubstr("layer4.1"), HasSubstr("\nmemory at the peak"),
                         ContainsRegex("\nthread +running  runnable  waiting\n")));
  const Json json = Json::parse(read(folder_ / "p.json"));
  EXPECT_EQ(json["kind"], "profile");
  EXPECT_EQ(json["updates"], 6);
  EXPECT_THAT(out, ContainsRegex("\na step: .* GFLOP and .* FLOP per byte, MFU .* %\n"));
  EXPECT_GT(json["mfu"], 0);
  for (const char* table : {"phases", "ops", "ops_by_operands", "modules", "gaps", "thread_states"})
    EXPECT_FALSE(json[table].empty()) << table;
}

TEST_F(Program, ProfileWritesAWholeTypicalUpdate) {
  succeed({"profile", "--steps", "2:6", "--json", "p.json", "model=lenet",
           "data={name: digits, train_size: 64, batch_size: 8}", "device=cpu"});
  const Json report = Json::parse(read("p.json")), &update = report["typical_update"];
  const double length = 1e9 * update["s"].get<double>();
  double ops = 0, gaps = 0, at = 0, most = 0;
  for (const Json& op : update["ops"]) ops += op["ns"].get<double>();
  for (const Json& gap : update["gaps"]) gaps += gap["ns"].get<double>();
  EXPECT_NEAR(ops + gaps, length, 0.01 * length);
  EXPECT_THAT(report["ops"].dump(), HasSubstr(" in lanes\"")) << "the kernel of conv_act_pool";
  for (const Json& point : update["bytes_in_use"]) {
    EXPECT_GE(point[0].get<double>(), at);
    at = point[0], most = std::max(most, point[1].get<double>());
  }
  EXPECT_LE(at, length);
  const double peak = report["memory"]["peak_bytes"];
  EXPECT_LE(most, peak);
  EXPECT_GT(most, 0.5 * peak);
}

TEST_F(Program, ProfileRefusesWindowsThatItCannotRecord) {
  for (const char* steps : {"20", "0:5", "7:7", "a:b", "3:4x"})
    expect_refusal({"profile", "--steps", steps}, 2, "expected two numbers");
  expect_refusal({"profile", "--steps", "3:900", "train.max_iters=5", "model=lenet"}, 2,
                 "the run ends after 5 updates");
}
