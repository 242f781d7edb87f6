// Plans of cuDNN and cuBLASLt that fail, are slow or compute wrong values. The product's logic
// runs; only the libraries are stand-ins (tests/cuda_host/vendor).
#include "ops/vendor/planned_call.h"
#include <gmock/gmock.h>
#include <cstdlib>
#include <filesystem>
#include "core/device/allocator.h"
#include "ops/conv/conv2d.h"
#include "ops/matmul/matmul.h"
#include "ops/norm/batch_norm.h"
#include "tests/cuda_host/beside_cpu.h"
#include "tests/cuda_host/cuda_host.h"
#include "tests/cuda_host/vendor/vendor.h"
#include "tests/moved.h"
#include "tests/trainer/runs.h"
#include "trainer/session/training_step.h"

using namespace cuda_host;
using testing::HasSubstr;

namespace {

// A problem of its own for each test, because the process keeps the plans of all problems.
int64_t next_size() {
  static int64_t size = 8;
  return ++size;
}

class PlannedCalls : public testing::Test {
 protected:
  // First of all, because the members below are made on the device.
  struct FreshDevice {
    FreshDevice() {
      empty_cache(Device::cuda);  // of the test before
      cuda_host::reset();
      vendor_library.built.clear();
      vendor_library.runs.clear();
    }
  };
  void TearDown() override {
    vendor_library.faults.clear();
    EXPECT_EQ(settle(), "");
  }

  // Runs fn() and returns what it prints on stderr.
  template <class Fn> static std::string log_of(const Fn& fn) {
    testing::internal::CaptureStderr();
    fn();
    return testing::internal::GetCapturedStderr();
  }
  // Expects the result of the CPU.
  void expect_right(const Tensor& got) const {
    EXPECT_LE(difference(kernels::conv2d(x, w, {}, {}, cpu_slot), got), 1e-5);
  }
  Tensor convolve() { return kernels::conv2d(x_, w_, {}, {}, slot); }

  const FreshDevice fresh;
  const int64_t size = next_size();
  const Tensor x = normal({1, 2, size, size}, 1), w = normal({3, 2, 3, 3}, 2);
  const Tensor x_ = on_device(x, DType::f32), w_ = on_device(w, DType::f32);
  Slot slot;
  mutable Slot cpu_slot;
  const Kernels use{{.vendor = true}};
};

}  // namespace

// ---- 1: plans that fail

TEST_F(PlannedCalls, TheNextPlanRunsWhereOneFailsWithOneNotice) {
  vendor_library.faults["first"].run = -1;
  const std::string log = log_of([&] {
    for (int i = 0; i < 3; ++i) expect_right(convolve());
  });
  EXPECT_THAT(log, HasSubstr("conv2d: plan first is dropped for"));
  EXPECT_THAT(log, HasSubstr("a planted failure"));
  EXPECT_EQ(log.find("dropped"), log.rfind("dropped")) << log;
  EXPECT_EQ(vendor_library.runs["first"], 1);
  EXPECT_EQ(vendor_library.runs["second"], 3);
  EXPECT_EQ(vendor_library.runs["third"], 0);
}

TEST_F(PlannedCalls, APlanThatCannotBeBuiltIsPassedOver) {
  vendor_library.faults["first"].build = -1;
  EXPECT_EQ(log_of([&] { expect_right(convolve()); }), "");
  EXPECT_EQ(vendor_library.runs["second"], 1);
}

TEST_F(PlannedCalls, ThePlainKernelRunsWhereEveryPlanFails) {
  for (const std::string& name : kPlans) vendor_library.faults[name].run = -1;
  const std::string log = log_of([&] { expect_right(convolve()); });
  for (const std::string& name : kPlans) EXPECT_THAT(log, HasSubstr("plan " + name));
}

TEST_F(PlannedCalls, AProductSurvivesAsAConvolutionDoes) {
  const Tensor a = normal({4, size}, 1), b = normal({size, 3}, 2);
  const auto multiply = [&] {
    return kernels::product(on_device(a, DType::f32), on_device(b, DType::f32), &slot);
  };
  const Tensor want = kernels::product(a, b);
  vendor_library.faults["first"].run = -1;
  EXPECT_THAT(log_of([&] { EXPECT_LE(difference(want, multiply()), 1e-5); }),
              HasSubstr("matmul: plan first is dropped for stand-in for cuBLASLt product f32"));
  for (const std::string& name : kPlans) vendor_library.faults[name].run = -1;
  log_of([&] { EXPECT_LE(difference(want, multiply()), 1e-5); });
}

// ---- captures

TEST_F(PlannedCalls, ACaptureUsesOnlyAPlanThatHasRun) {
  Tensor y;
  const Moved fallbacks("kernel.fallbacks");
  log_of([&] {
    const Graph unproven(Device::cuda, [&] { y = convolve(); });
    unproven.launch();
    expect_right(y);
  });
  EXPECT_EQ(fallbacks, 1);
  EXPECT_EQ(vendor_library.runs["first"], 0);
  expect_right(convolve());
  const Graph proven(Device::cuda, [&] { y = convolve(); });
  proven.launch();
  expect_right(y);
  EXPECT_EQ(fallbacks, 1);
  EXPECT_EQ(vendor_library.runs["first"], 2);
}

// ---- 2: one map, searches

TEST_F(PlannedCalls, LayersWithTheSameProblemShareAPlan) {
  Slot other;
  expect_right(convolve());
  expect_right(kernels::conv2d(x_, w_, {}, {}, other));
  EXPECT_EQ(vendor_library.built["first"], 1);
}

namespace {
// Searches, with a folder of its own for what they find.
struct Searches : PlannedCalls {
  Searches() { setenv("XDG_CACHE_HOME", folder.c_str(), 1); }
  ~Searches() override { std::filesystem::remove_all(folder); }
  const std::string folder = std::filesystem::temp_directory_path() / cat("plans_", getpid());
  // Times are numbers of operations here: one for a plan, at least one for the plain kernel.
  const Kernels search{{.vendor = true, .autotune = Autotune::benchmark}};
};
}  // namespace

TEST_F(Searches, ChooseTheFastestPlanAndBuildItOnce) {
  vendor_library.faults["first"].slow = vendor_library.faults["third"].slow = 200;
  for (int i = 0; i < 3; ++i) expect_right(convolve());
  const int before = vendor_library.runs["second"];
  expect_right(convolve());
  EXPECT_EQ(vendor_library.runs["second"], before + 1);
  EXPECT_EQ(vendor_library.built["second"], 1);
}

TEST_F(Searches, EndAfterTheirTimeAndReportIt) {
  for (const std::string& name : kPlans) vendor_library.faults[name].slow_ms = 20;
  const Kernels hasty({.vendor = true, .autotune = Autotune::benchmark, .search_seconds = 0.01});
  const Moved search_us("autotune.search_us");
  expect_right(convolve());
  EXPECT_GT(search_us, 20'000);
  EXPECT_GT(vendor_library.runs["first"], 0);
  EXPECT_EQ(vendor_library.runs["second"] + vendor_library.runs["third"], 0);
}

// ---- 3: wrong values

// On images of zeros, a plan that is wrong by a factor would pass.
TEST_F(Searches, OfADryRunSeeValuesThatTellKernelsApart) {
  vendor_library.faults["first"].wrong = -1;
  vendor_library.faults["second"].slow = vendor_library.faults["third"].slow = 200;
  Session session(load(
      Plan{},
      from_yaml("device: cuda\nmodel: {name: layers, layers: [{name: conv2d, out: 3, bias: false}, "
                "flatten, {name: linear, out: 10}]}\n"
                "data: {train_size: 2, test_size: 2, batch_size: 2}\n"
                "kernels: {vendor: true, autotune: benchmark}\n")));
  EXPECT_THAT(log_of([&] { dry_run(session); }), HasSubstr("conv2d: plan first is dropped"));
}

// As in the first updates in f16, before the loss scale has come down.
TEST_F(Searches, CompareAgainWhereTheValuesWereNotFinite) {
  vendor_library.faults["first"].wrong = -1;
  vendor_library.faults["second"].slow = vendor_library.faults["third"].slow = 200;
  const Tensor overflown = full(x_.shape(), INFINITY, x_);
  EXPECT_EQ(log_of([&] { kernels::conv2d(overflown, w_, {}, {}, slot); }), "");
  const auto call_often = [&] {
    for (int i = 0; i < 32; ++i) convolve();
  };
  const std::string log = log_of(call_often);
  EXPECT_THAT(log, HasSubstr("conv2d: plan first is dropped"));
  EXPECT_THAT(log, HasSubstr("its values differ from the plain kernel's by"));
  expect_right(convolve());
}

// ---- 4: fallbacks

TEST_F(PlannedCalls, AFallbackIsLoggedOncePerLayer) {
  for (const std::string& name : kPlans) vendor_library.faults[name].build = -1;
  const Moved fallbacks("kernel.fallbacks");
  const std::string log = log_of([&] {
    for (const std::string layer : {"conv_a", "conv_b"}) {
      const ModuleScope inside(site_of(cat(layer, size)));
      for (int i = 0; i < 3; ++i) expect_right(convolve());
    }
  });
  for (const std::string layer : {"conv_a", "conv_b"}) {
    const std::string line =
        cat("layer '", layer, size, "': conv2d falls back to the plain kernel");
    EXPECT_NE(log.find(line), std::string::npos) << log;
    EXPECT_EQ(log.find(line), log.rfind(line)) << log;
  }
  EXPECT_EQ(fallbacks, 6);
}

// ---- 5: what a graph needs

TEST_F(PlannedCalls, APlanLivesAsLongAsTheGraphThatCapturedIt) {
  expect_right(convolve());
  Tensor y;
  const int alive = vendor_library.alive;
  {
    const Graph graph(Device::cuda, [&] { y = convolve(); });
    vendor_library.faults["first"].run = 1;
    log_of([&] { expect_right(convolve()); });  // drops the plan and builds the next
    EXPECT_EQ(vendor_library.alive, alive + 1);
    graph.launch();
    expect_right(y);
  }
  EXPECT_EQ(vendor_library.alive, alive);
}
