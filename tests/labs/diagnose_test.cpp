// trainer diagnose: every rule fires on its planted fault and is silent without it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <numeric>
#include "core/config/config.h"
#include "core/tensor/kernel.h"
#include "labs/diagnose/diagnosis.h"
#include "tests/place.h"
#include "tests/trainer/program.h"
#include "trainer/verbs/topics.h"

using namespace bellows;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

Config load_config(const Names& overrides) {
  return make_config(read_sources(source_dir() + "/configs/lenet.yaml", overrides));
}

// A run in which nothing is wrong: 10 ms an update, 1 % of it waiting for data.
Evidence healthy(const Names& overrides = {}) {
  Evidence e{.config = load_config(overrides), .updates = 100, .cores = 4, .measured = true};
  e.batch_cost.assign(100, 10e-3);
  e.reader_cost.assign(100, 0.1e-3);
  e.cpu_used = 3.9;
  e.load_s = 0.5e-3;
  e.waited = 0.01;
  e.others = 0;
  e.ops = {{"conv2d", 5e-3, 5e9}, {"linear", 2e-3, 1e9}};
  e.product_bytes = 1e6;
  e.between_ops_s = 0.5e-3;
  e.fma_per_s = 2e12;
  e.counters = {{"grad.dropped", 800}};
  return e;
}

void wait_for_data(Evidence& e, double share) {
  for (size_t i = 0; i < e.batch_cost.size(); ++i) e.reader_cost[i] = share * e.batch_cost[i];
}

Names rules_of(const Json& report) {
  Names names;
  for (const Json& finding : report["findings"]) names.push_back(finding["rule"]);
  return names;
}

std::string text_of(const Evidence& e) { return diagnose(e)["text"]; }

struct Planted {
  const char* rule;
  void (*plant)(Evidence&);
  const char* remedy;  // "": advice only
};
const Planted kFaults[] = {
    {"workers_too_few",
     [](Evidence& e) {
       wait_for_data(e, 0.5), e.cpu_used = 1, e.load_s = 10e-3,
                              e.config = load_config({"toggles.num_workers=1"});
     },
     "toggles.num_workers=2"},
    {"cpu_saturated", [](Evidence& e) { wait_for_data(e, 0.5), e.cpu_used = 3.9; }, ""},
    {"device_oscillating",
     [](Evidence& e) {
       e.config = load_config({"toggles.num_workers=8"}), e.cpu_used = 1;
       for (size_t i = 0; i < 100; i += 4) e.reader_cost[i] = 9.9e-3;
     },
     "toggles.prefetch_factor=4"},
    {"io_starved",
     [](Evidence& e) {
       e.config = load_config({"toggles.num_workers=8"}), e.cpu_used = 1, wait_for_data(e, 0.2);
     },
     ""},
    {"device_unused", [](Evidence& e) { e.gpu_idle = true; }, "device=cuda"},
    {"host_bound", [](Evidence& e) { e.between_ops_s = 6e-3; }, ""},
    {"kernel_hot", [](Evidence& e) { e.config = load_config({"toggles.batch_lanes=off"}); },
     "toggles.batch_lanes=on"},
    {"blas_slow", [](Evidence& e) { e.fma_per_s = 50e12; }, ""},
    {"amp_worthwhile", [](Evidence& e) { e.on_gpu = e.tensor_cores = true; }, "toggles.amp=bf16"},
    {"gpu_contended", [](Evidence& e) { e.on_gpu = true, e.gpu_processes = 3; }, ""},
    {"host_contended", [](Evidence& e) { e.waited = 2, e.others = 0.5; }, ""},
    {"lock_contended",
     [](Evidence& e) {
       e.counters["lock.queue.wait_ns"] = 300'000'000;
       e.config = load_config({"toggles.num_workers=2", "toggles.ring_queues=off"});
     },
     "toggles.ring_queues=on"},
    {"algo_search_repeated",
     [](Evidence& e) {
       e.counters["autotune.searches"] = 100, e.counters["autotune.search_us"] = 300'000;
     },
     ""},
    {"copy_not_pinned",
     [](Evidence& e) { e.on_gpu = true, e.counters["data.staging_copies"] = 100; },
     "toggles.pin_memory=on"},
    {"created_then_moved",
     [](Evidence& e) { e.on_gpu = true, e.counters["tensor.created_then_moved"] = 100; }, ""},
    {"bias_before_bn",
     [](Evidence& e) {
       e.biases_before_norm = 3, e.config = load_config({"toggles.drop_conv_bias=off"});
     },
     "toggles.drop_conv_bias=on"},
    {"grads_not_cleared", [](Evidence& e) { e.counters.clear(); }, ""},
    {"updates_skipped", [](Evidence& e) { e.skipped = 1; }, ""},
    {"saving", [](Evidence& e) { e.save_share = 0.2, e.saves = 2; }, ""},
    {"evaluating", [](Evidence& e) { e.eval_share = 0.5; }, ""},
};

}  // namespace

TEST(Diagnose, IsSilentWithoutAFault) {
  EXPECT_THAT(rules_of(diagnose(healthy())), IsEmpty());
  EXPECT_THAT(text_of(healthy()), HasSubstr("findings: none"));
  Evidence once = healthy();  // no option saves less often
  once.save_share = 0.2, once.saves = 1;
  EXPECT_THAT(rules_of(diagnose(once)), IsEmpty());
}

// libgomp's team and ours wait for each other on a quiet machine, too.
TEST(Diagnose, BlamesNobodyForThreadsOfTheRunThatWaitForEachOther) {
  Evidence e = healthy();
  e.waited = 2;
  EXPECT_THAT(rules_of(diagnose(e)), IsEmpty());
}

// Loader workers that have no core look like a slow disk.
TEST(Diagnose, BlamesNoDiskWhereOtherProgramsMayHaveTakenTheCores) {
  Evidence e = healthy({"toggles.num_workers=8"});
  e.cpu_used = 1, e.waited = 2;
  wait_for_data(e, 0.2);
  EXPECT_THAT(rules_of(diagnose(e)), ElementsAre("io_starved"));
  e.others = Evidence().others;
  EXPECT_THAT(rules_of(diagnose(e)), IsEmpty());
}

TEST(Diagnose, OffersVendorKernelsOnlyForOpsThatHaveOne) {
  Evidence e = healthy({"toggles.vendor_kernels=off", "toggles.batch_lanes=off"});
  const auto remedies = [&](const char* op) {
    e.ops = {{op, 5e-3}};
    const Json d = diagnose(e);
    return d["findings"].empty() ? Names() : d["findings"][0]["remedies"].get<Names>();
  };
  for (const char* op : {"optimizer", "zero_grad"}) EXPECT_THAT(remedies(op), IsEmpty()) << op;
  const bool library = std::ranges::any_of(
      kernel_records(), [](const KernelRecord* kernel) { return kernel->vendor[0]; });
  for (const char* op : {"conv2d", "linear", "matmul"})
    EXPECT_EQ(std::ranges::count(remedies(op), "toggles.vendor_kernels=on"), library) << op;
  EXPECT_THAT(remedies("conv2d"), Contains("toggles.batch_lanes=on"));
}

TEST(Diagnose, EveryRuleFiresOnItsFaultAlone) {
  Names planted;
  for (const Planted& fault : kFaults) {
    SCOPED_TRACE(fault.rule);
    planted.push_back(fault.rule);
    Evidence e = healthy();
    fault.plant(e);
    const Json d = diagnose(e);
    ASSERT_THAT(rules_of(d), ElementsAre(fault.rule));
    if (*fault.remedy) {
      EXPECT_THAT(d["findings"][0]["remedies"], Contains(fault.remedy));
    }
    EXPECT_FALSE(d["findings"][0]["remedies"].empty() && d["findings"][0]["advice"] == "");
  }
  for (const Rule& rule : diagnosis_rules()) {
    EXPECT_THAT(planted, Contains(rule.name));
    EXPECT_TRUE(find_topic(rule.name)) << rule.name << " has no word in docs/topics.md";
  }
}

// Two faults at once, in ten mixtures: the one that costs more is named first.
TEST(Diagnose, NamesTheLargerOfTwoFaultsFirst) {
  for (int i = 1; i <= 10; ++i) {
    const double input = 0.11 + 0.07 * i, waiting = 0.98 - input;
    SCOPED_TRACE(input);
    Evidence e = healthy({"toggles.num_workers=1"});
    e.cpu_used = 1;
    wait_for_data(e, input);
    e.load_s = 10e-3;
    e.waited = waiting * e.cores;
    e.others = 0.5;
    const Json d = diagnose(e);
    ASSERT_THAT(rules_of(d), testing::UnorderedElementsAre("workers_too_few", "host_contended"));
    EXPECT_EQ(d["findings"][0]["rule"], input > waiting ? "workers_too_few" : "host_contended");
  }
}

TEST(Diagnose, NoMoreTimeIsLostToOthersThanTheCoresThatTheyHad) {
  Evidence e = healthy();
  e.cpu_used = 1;
  e.waited = 5;  // of 4 cores: more threads than cores
  e.others = 0.5;
  EXPECT_DOUBLE_EQ(diagnose(e)["findings"][0]["most_speedup"], 4);
}

TEST(Diagnose, TellsFourClassesApart) {
  const auto with = [](double compute, double loading) {
    Evidence e = healthy();
    wait_for_data(e, 1 - compute);
    e.load_s = loading;
    return e;
  };
  EXPECT_EQ(class_of(with(0.99, 1e-3)), 3);
  EXPECT_EQ(class_of(with(0.99, 9e-3)), 4);
  EXPECT_EQ(class_of(with(0.2, 20e-3)), 2);
  Evidence tiny = with(0.99, 1e-3);
  tiny.between_ops_s = 8e-3;
  EXPECT_EQ(class_of(tiny), 1);
  Evidence lenet = with(0.99, 1e-3);  // on a CPU: its ops are too small for a device
  lenet.ops = {{"conv2d", 8e-3, 150e6, 20}};
  EXPECT_EQ(class_of(lenet), 1);
  lenet.ops.push_back({"sim_compute", 6e-3, 0, 1});
  EXPECT_EQ(class_of(lenet), 3);
}

TEST(Diagnose, FindsALongWaitForLocksOnABusyMachineOnly) {
  Evidence e = healthy({"toggles.num_workers=2", "toggles.ring_queues=off"});
  e.counters["lock.queue.wait_ns"] = 300'000'000;  // 1 ms an update, of each of three threads
  EXPECT_THAT(rules_of(diagnose(e)), Contains("lock_contended"));
  e.waited = 2, e.others = 0.5;
  EXPECT_THAT(rules_of(diagnose(e)), ElementsAre("host_contended"));
  e.counters["lock.queue.wait_ns"] = 900'000'000;
  EXPECT_THAT(rules_of(diagnose(e)), Contains("lock_contended"));
}

TEST(Diagnose, PutsTheFindingsOfAKeyTogether) {
  Evidence e = healthy({"toggles.num_workers=8", "toggles.drop_conv_bias=off"});
  e.cpu_used = 1;
  wait_for_data(e, 0.5);
  e.save_share = 0.2, e.saves = 2;
  e.biases_before_norm = 3;
  const Json d = diagnose(e);
  EXPECT_THAT(rules_of(d), ElementsAre("io_starved", "saving", "bias_before_bn"));
  EXPECT_EQ(d["findings"][0]["key"], "reading");
  EXPECT_THAT(d["text"].get<std::string>(), HasSubstr("1. io_starved (reading), at most 2.00 x"));
}

// Without them, all computing would count as time in ops.
TEST(Diagnose, NamesAClassOnlyWithTimesOfOps) {
  Evidence e = healthy();
  EXPECT_EQ(diagnose(e).at("class"), 3);
  EXPECT_THAT(text_of(e), HasSubstr("limit: computing; class 3, much computing"));
  e.ops.clear();
  EXPECT_FALSE(diagnose(e).contains("class"));
  EXPECT_THAT(text_of(e), HasSubstr("limit: computing\n"));
}

// The law of the seeds' DeepLab case: 48.5 ms to load, 11.66 ms to compute.
TEST(Diagnose, PredictsTheWorkersThatHideTheLoading) {
  Evidence e = healthy({"toggles.num_workers=2"});
  e.cpu_used = 1;
  e.load_s = 48.5e-3;
  e.batch_cost.assign(100, 24.25e-3);
  e.reader_cost.assign(100, 24.25e-3 - 11.66e-3);
  EXPECT_EQ(workers_needed(e), 5);  // 48.5 / 11.66 = 4.2
  EXPECT_THAT(diagnose(e)["findings"][0]["remedies"], ElementsAre("toggles.num_workers=5"));
}

// ---- with real training

TEST(Diagnose, TimesOfOpsAndTheRestAddUpToAnUpdate) {
  const Evidence e = measure(load_config({}), 0.5);
  double ops = e.between_ops_s;
  for (const OpTime& op : e.ops) ops += op.s;
  EXPECT_GT(ops, 0.8 * e.compute_s());  // optimizer and clearing gradients are no ops
  EXPECT_LT(ops, 1.02 * e.compute_s());
  EXPECT_TRUE(std::ranges::any_of(e.ops, [](const OpTime& op) { return op.flop > 0; }));
}

// Three workers deliver three batches at once: every third update waits for as long as three take.
TEST(Diagnose, MeasuresForAsLongAsItIsTold) {
  const Evidence e =
      measure(load_config({"data.sim_latency_us=50000", "toggles.num_workers=3"}), 0.6);
  const double s = std::accumulate(e.batch_cost.begin(), e.batch_cost.end(), 0.0);
  EXPECT_EQ(e.batch_cost.size(), e.updates);
  EXPECT_GT(s, 0.4);
}

TEST(Diagnose, EndsAtItsLimit) {
  const Names slow = {"data.sim_latency_us=300000", "toggles.num_workers=0"};
  EXPECT_EQ(measure(load_config(slow), 60, 0.2).updates, 1);
}

class DiagnoseProgram : public Program {
 protected:
  const std::string lenet_ = source_dir() + "/configs/lenet.yaml";
  const Args slow_disk_ = {"data.sim_latency_us=100000", "toggles.num_workers=2"};

  Json to_json(const Args& args) { return Json::parse(succeed(args), nullptr, false); }
  // Returns the remedies. On a busy machine another finding, such as host_contended, may come
  // first.
  static Names remedies_of(const char* rule, const Json& found) {
    for (const Json& finding : found["findings"])
      if (finding["rule"] == rule) return finding["remedies"];
    ADD_FAILURE() << "no " << rule << ": " << found;
    return {""};
  }
};

TEST_F(DiagnoseProgram, FindsASlowDiskByTraining) {
  const Json found =
      to_json(with({"diagnose", "--config", lenet_, "--seconds", "1", "--json"}, slow_disk_));
  EXPECT_EQ(found["kind"], "diagnose");
  EXPECT_THAT(found["limit"].get<std::string>(), testing::StartsWith("input"));
  EXPECT_THAT(found["findings"].dump(), testing::Not(HasSubstr("grads_not_cleared")));
  const std::string remedy = remedies_of("workers_too_few", found)[0];
  const double compute = found["batch_cost"].get<double>() - found["reader_cost"].get<double>();
  const double workers = std::stod(remedy.substr(remedy.find('=') + 1));
  EXPECT_GE(found["load_s"], 0.1);
  EXPECT_NEAR(workers, std::min(found["load_s"].get<double>() / compute, 64.0), 1);
}

TEST_F(DiagnoseProgram, ReadsTheFolderOfARun) {
  succeed(with({"--config", lenet_, "--run-dir", "slow", "train.max_iters=12", "log.every=4",
                "eval.every=0"},
               slow_disk_));
  const Json found = to_json({"diagnose", "slow", "--json"});
  EXPECT_EQ(found["measured_here"], false);
  EXPECT_GE(found["cores_used"].get<double>(), 0);
  const bool watched = read("slow/metrics.jsonl").find("cpu_utilization") != std::string::npos;
  EXPECT_EQ(found["others"] == -1, !watched) << "the run took less than a second";
  EXPECT_THAT(remedies_of("workers_too_few", found), ElementsAre(HasSubstr("num_workers=")));
}

// After a second, a run records the load of the machine, and --watch shows it beside the costs.
TEST_F(DiagnoseProgram, WatchesTheMachineAndARun) {
  succeed({"--config", lenet_, "--run-dir", "slow", "train.max_iters=60", "log.every=4",
           "eval.every=0", "data.sim_latency_us=30000"});
  int64_t loads = 0;
  for (const Json& row : rows("slow")) {
    if (!row.contains("cpu_utilization")) continue;
    ++loads;
    double sum = 0;
    for (const double core : row["cpu_utilization_by_core"]) sum += core;
    const double cores = double(row["cpu_utilization_by_core"].size());
    EXPECT_NEAR(row["cpu_utilization"].get<double>(), sum / cores, 1e-9);
    EXPECT_GT(sum, 0);
    EXPECT_LE(sum, cores);
  }
  EXPECT_GE(loads, 1);
  EXPECT_LE(loads, 3);
  EXPECT_THAT(
      succeed({"doctor", "--watch", "1", "--run", "slow"}),
      testing::ContainsRegex("cpu %.*batch ms  reader ms\n[^\n]* 60 +[1-9][0-9.]* +[0-9.]+\n"));
  write("odd/metrics.jsonl", "{\"split\": 5}\n{\"split\": \"train\", \"step\": \"x\"}\n");
  EXPECT_EQ(run({"doctor", "--watch", "1", "--run", "odd"}).code, 0) << "rows that no run writes";
  expect_refusal({"doctor", "--run", "slow"}, 2, "only --watch takes a --run");
  expect_refusal({"doctor", "--bandwidths"}, 2, "removed in 0.2, because `trainer bench` measures");
  expect_refusal({"doctor", "--watch", "1", "--run", "nowhere"}, 2, "no metrics.jsonl");
}

TEST_F(DiagnoseProgram, AppliesTheRemedy) {
  // The model is so small that loading stays the limit on a machine that is busy with other tests.
  write("slow #1.yaml",
        "model: {name: mlp, hidden: [8]}\n"
        "data: {name: digits, train_size: 512, batch_size: 8, sim_latency_us: 4000}\n");
  EXPECT_THAT(succeed({"diagnose", "--config", "slow #1.yaml", "--seconds", "0.3", "--apply",
                       "better.yaml", "--budget", "12s"}),
              testing::AllOf(HasSubstr("predicted at most"), HasSubstr("\nmeasured: ")));
  EXPECT_THAT(read("better.yaml"), HasSubstr("base: \"slow #1.yaml\"\ntoggles:\n  num_workers: "));
}

TEST_F(DiagnoseProgram, RefusesWhatItCannotJudge) {
  expect_refusal({"diagnose"}, 2, "name either");
  expect_refusal({"diagnose", "nowhere"}, 2, "plan.yaml");
  expect_refusal({"diagnose", "nowhere", "--apply", "x.yaml"}, 2, "--apply needs --config");
  expect_refusal({"diagnose", "--config", lenet_, "--json", "--apply", "x.yaml"}, 2,
                 "--apply excludes --json");
  expect_refusal({"diagnose", "one", "two"}, 2, "one and two: it judges one run");
  write("own.yaml", "model: lenet\n");
  expect_refusal({"diagnose", "--config", "own.yaml", "--apply", "own.yaml"}, 2,
                 "--apply own.yaml: exists");
  expect_refusal({"diagnose", "--config", "own.yaml", "--budget", "60s"}, 2, "add --apply");
  expect_refusal({"diagnose", "nowhere", "--seconds", "3"}, 2, "leave --seconds out");
  expect_refusal({"diagnose", "--config", "own.yaml", "--apply", "new.yaml", "--budget", "60"}, 2,
                 "not a duration");
  write("broken/plan.yaml", "model: lenet\n");
  write("broken/metrics.jsonl", "{\"split\": \"tr\n{}\n");
  expect_refusal({"diagnose", "broken"}, 3, "damaged");
}
