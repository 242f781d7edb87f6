// trainer doctor: its findings on invented machines, and the real program on this one.
#include "labs/doctor/doctor.h"
#include <gmock/gmock.h>
#include <algorithm>
#include "core/device/device.h"
#include "core/device/threads.h"
#include "ops/matmul/matmul.h"
#include "tests/place.h"
#include "tests/trainer/program.h"
#include "trainer/log/system.h"

using namespace bellows;
namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// ---- findings

// Four cores and nothing to find.
static Machine sound() {
  Machine m;
  m.environment = environment();
  m.environment["versions"]["onednn"] = "3.2.1";
  m.topology = {{{0, {0, 1, 2, 3}, int64_t(8) << 30}}, 4, 4, 1};
  m.affinity = {0, 1, 2, 3};
  m.cores = m.threads = 4;
  m.libraries = {"/usr/lib/libgomp.so.1", "/usr/lib/libdnnl.so.3"};
  return m;
}

TEST(Findings, NoneOnASoundMachine) { EXPECT_THAT(findings(sound()), IsEmpty()); }

TEST(Findings, MoreThreadsThanCores) {
  Machine m = sound();
  m.threads = 8;
  EXPECT_THAT(findings(m), ElementsAre(AllOf(HasSubstr("8 OpenMP threads on 4 cores"),
                                             HasSubstr("type  export OMP_NUM_THREADS=4"))));
}

TEST(Findings, ThreadsThatAreHeldBackByTheEnvironment) {
  Machine m = sound();
  m.threads = 1;
  EXPECT_THAT(findings(m), IsEmpty()) << "nobody asked for one thread";
  m.variables["OMP_NUM_THREADS"] = "1";
  EXPECT_THAT(findings(m), ElementsAre(AllOf(HasSubstr("leaves 3 of 4 cores idle"),
                                             HasSubstr("type  unset OMP_NUM_THREADS"))));
}

TEST(Findings, OneCoreLeftByTheEnvironment) {
  Machine m = sound();
  m.variables["OMP_PROC_BIND"] = "close";
  EXPECT_THAT(findings(m), IsEmpty()) << "all cores are left";
  m.cores = m.threads = 1;
  EXPECT_THAT(findings(m), IsEmpty()) << "a quota leaves one";
  m.affinity = {0};
  EXPECT_THAT(findings(m), ElementsAre(AllOf(HasSubstr("leaves this process 1 of 4 CPUs"),
                                             HasSubstr("type  unset OMP_PROC_BIND"))));
  m.variables["OMP_PROC_BIND"] = "false";
  EXPECT_THAT(findings(m), IsEmpty()) << "it binds nothing";
}

TEST(Findings, OtherRunsOnTheSameCores) {
  Machine m = sound();
  m.other_trainers = 1;
  EXPECT_THAT(findings(m), ElementsAre(AllOf(HasSubstr("1 other process of this program"),
                                             HasSubstr("threads.threads=2"))));
  m.other_trainers = 3;
  EXPECT_THAT(findings(m), ElementsAre(AllOf(HasSubstr("3 other processes of this program"),
                                             HasSubstr("threads.threads=1"))));
}

TEST(Findings, TwoOpenMpRuntimes) {
  Machine m = sound();
  m.libraries.push_back("/opt/intel/libiomp5.so");
  EXPECT_THAT(findings(m), ElementsAre(AllOf(HasSubstr("2 OpenMP runtimes"),
                                             HasSubstr("libgomp.so.1, libiomp5.so"))));
  m.variables["LD_PRELOAD"] = "/opt/intel/libiomp5.so";
  EXPECT_THAT(findings(m), ElementsAre(HasSubstr("type  unset LD_PRELOAD")));
}

TEST(Findings, AnAllocatorThatIsAskedForAndNotThere) {
  Machine m = sound();
  m.variables["LD_PRELOAD"] = "/usr/lib/libjemalloc.so";
  EXPECT_THAT(findings(m), ElementsAre(HasSubstr("libjemalloc.so, which is not loaded")));
  m.libraries.push_back("/usr/lib/libjemalloc.so.2");  // the target of the link
  EXPECT_THAT(findings(m), IsEmpty());
  EXPECT_THAT(describe(m), HasSubstr("allocator: libjemalloc.so.2"));
}

TEST(Findings, WhatHoldsOneDnnBack) {
  Machine m = sound();
  m.variables["ONEDNN_MAX_CPU_ISA"] = "AVX2";
  EXPECT_THAT(findings(m), ElementsAre(HasSubstr("type  unset ONEDNN_MAX_CPU_ISA")));
}

TEST(Findings, ABusyMachineAndABinaryForDebugging) {
  Machine m = sound();
  m.load = 4.5;
  m.optimized = false;
  EXPECT_THAT(findings(m),
              ElementsAre(HasSubstr("cmake --preset release"), HasSubstr("load 4.5 on 4 CPUs")));
}

TEST(Findings, AGpuThatTheBinaryCannotUse) {
  Machine m = sound();
  m.cuda.code = {13000, "90"};
  EXPECT_THAT(findings(m), IsEmpty()) << "a machine without a GPU is sound";
  m.cuda.driver = 12020;
  m.cuda.gpus = {{"NVIDIA A100", 80, 108, int64_t(40) << 30, "0000:3b:00.0"}};
  m.gpu_nodes = {1};
  EXPECT_THAT(findings(m), ElementsAre(HasSubstr("stays at 0 %: driver too old")));
  m.cuda.driver = 13000;
  EXPECT_THAT(findings(m), ElementsAre(HasSubstr("wrong architecture in the binary")));
  EXPECT_THAT(describe(m), HasSubstr("NVIDIA A100, sm_80, 40.0 GiB, 108 SMs, 0000:3b:00.0, NUMA "
                                     "node 1"));
}

TEST(Findings, ADescriptionIsOneScreenOfLinesOfOneShape) {
  std::istringstream lines(describe(sound()));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    EXPECT_EQ(line.find_first_not_of(' ', line.find(' ')), 11U) << line;
  EXPECT_LE(count, 12);
}

TEST(Libraries, AreToldByTheirNames) {
  const Libraries loaded = {
      "/a/libgomp-a34b3233.so.1",   "/a/libomp.so.5",     "/a/libompd.so",
      "/a/libopenblasp-r0.3.21.so", "/a/libcublas.so.13", "/a/libtcmalloc_minimal.so.4"};
  EXPECT_THAT(libraries_named(kOpenmp, loaded),
              ElementsAre("libgomp-a34b3233.so.1", "libomp.so.5"));
  EXPECT_THAT(libraries_named(kBlas, loaded), ElementsAre("libopenblasp-r0.3.21.so"));
  EXPECT_THAT(libraries_named(kAllocator, loaded), ElementsAre("libtcmalloc_minimal.so.4"));
}

// ---- the stress test

TEST(Stress, VerifiesEveryPrecision) {
  for (const Stress& result : stress(Device::cpu, 100, 20)) {
    EXPECT_GT(result.worst_error, 0) << result.precision << ": nothing was compared";
    EXPECT_LE(result.worst_error, 1) << result.precision;
    EXPECT_LE(result.slowest_part, result.fastest_part);
  }
}

TEST(Stress, FindsASingleWrongElement) {
  for (const Precision& precision : precisions(Device::cpu)) {
    const Product product(precision, {70, 300}, {300, 50}, Device::cpu);
    product.run();
    EXPECT_LE(worst_error(product, {0, 33, 69}), 1) << precision.name;
    visit_stored(precision.dtype, [&]<class T>(T) {
      T& element = product.y.data<T>()[33 * 50 + 49];
      element = T(float(element) * 1.1F);
    });
    EXPECT_GT(worst_error(product, {0, 33, 69}), 1) << precision.name;
    EXPECT_LE(worst_error(product, {0, 32, 69}), 1)
        << precision.name << ": the other rows are right";
    visit_stored(precision.dtype, [&]<class T>(T) { product.y.data<T>()[0] = T(NAN); });
    EXPECT_EQ(worst_error(product, {0}), INFINITY) << precision.name;
  }
}

TEST(Stress, WorksOnRandomNumbersNotZeros) {
  const Product product(precisions(Device::cpu)[0], {8, 1000}, {1000, 8}, Device::cpu);
  double squares = 0;
  for (const float x : product.a.data<float>()) squares += double(x) * x;
  EXPECT_NEAR(squares / 8000, 1, 0.1);
}

// ---- the program

TEST_F(Program, DoctorDescribesThisMachine) {
  const Ended ended = run({"doctor"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
  EXPECT_THAT(ended.out,
              AllOf(HasSubstr("cpu        "), HasSubstr("NUMA node"), HasSubstr("libgomp.so.1"),
                    HasSubstr("allocator: "), HasSubstr("bellows "), HasSubstr("\nfindings:")));
  EXPECT_THAT(ended.out, Not(HasSubstr("stress")));
}

TEST_F(Program, DoctorFindsOtherRuns) {
  if (allowed_cores() == 1) GTEST_SKIP() << "one core is nothing to share";
  const auto other = start(tiny({"train.epochs=100000"}));
  ASSERT_TRUE(other->says("epoch: 2"));
  EXPECT_THAT(run({"doctor"}).out, HasSubstr("other process"));
}

TEST_F(Program, DoctorFindsOversubscription) {
  const Ended ended = run({"doctor"}, [] { setenv("OMP_NUM_THREADS", "61", 1); });
  EXPECT_THAT(ended.out, AllOf(HasSubstr("61 of OpenMP"), HasSubstr("61 OpenMP threads on "),
                               HasSubstr("type  export OMP_NUM_THREADS=")));
}

// Sets up a fake driver that supports that CUDA version, with a GPU of that architecture.
static std::function<void()> on_machine(const char* cuda, const char* arch) {
  return [=] {
    setenv("LD_LIBRARY_PATH", fakes_dir().c_str(), 1);
    setenv("FAKE_DRIVER_CUDA", cuda, 1);
    setenv("FAKE_GPU_ARCH", arch, 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
  };
}

TEST_F(Program, DoctorAndBenchSayWhyAGpuCannotBeUsed) {
  if (device_count(Device::cuda) > 0) GTEST_SKIP() << "here is a GPU";
  const bool with_cuda = cuda_code.runtime > 0;
  const std::string none = "this binary has no CUDA code";
  struct {
    const char *cuda, *arch;
    std::string reason;
  } const machines[] = {
      {"11040", "90", with_cuda ? "driver too old: it supports CUDA 11.4" : none},
      {"13000", "52",
       with_cuda ? "the Fake GPU is sm_52; configure with  "
                   "-DCMAKE_CUDA_ARCHITECTURES=52"
                 : none},
      {"13000", "0", with_cuda ? "no GPU: no CUDA-capable device is detected" : none}};
  for (const auto& [cuda, arch, reason] : machines) {
    const bool quiet = !with_cuda && *arch == '0';  // no GPU, and none requested
    const std::string out = succeed({"doctor"}, on_machine(cuda, arch));
    EXPECT_EQ(out.find("the GPU stays at 0 %: ") == std::string::npos, quiet) << out;
    EXPECT_THAT(out, HasSubstr(quiet ? "" : reason));
    EXPECT_THAT(out, HasSubstr(*arch == '0' ? "" : cat("Fake GPU, sm_", arch, ", 24.0 GiB")));
    expect_refusal({"bench", "h2d"}, 2, reason, on_machine(cuda, arch));
    expect_refusal({"bench", "dispatch", "--device", "cuda"}, 2, reason, on_machine(cuda, arch));
  }
}

TEST_F(Program, DoctorStressesAndVerifiesAtASizeOfItsOwnOrOurs) {
  EXPECT_THAT(succeed({"doctor", "--stress", "64"}),
              AllOf(HasSubstr("100 products 64 x 64 x 64"), HasSubstr("FP32"), HasSubstr("FP64"),
                    HasSubstr("FLOP/s"), HasSubstr("verified"), Not(HasSubstr("WRONG"))));
}

TEST(Blas, HasARowForEachLibraryThatIsHereAndNamesAMissingOne) {
  std::istringstream lines(blas_rates());
  std::string title, head, line;
  std::getline(std::getline(lines, title), head);
  EXPECT_THAT(title, testing::ContainsRegex("peak of [0-9.]+ [GT]FLOP/s$"));
  EXPECT_THAT(head, testing::ContainsRegex("^cpu.blas +64x400x120 +3136x576x64 +49x4608x512$"));
  std::set<std::string> libraries;
  while (std::getline(lines, line)) {
    libraries.insert(line.substr(0, line.find_first_of(" :")));
    EXPECT_THAT(line, testing::ContainsRegex("^openblas: (apt-get|its kernels for [A-Z])|"
                                             "^[a-z]+( +[0-9.]+ [GT]FLOP/s, [0-9]+ %){3}$"));
  }
  std::set<std::string> all = {"eigen", "openblas"};
  if (kernels::matmul.has_vendor(Device::cpu)) all.insert("onednn");
  EXPECT_EQ(libraries, all);
}

TEST_F(Program, DoctorShowsWhichSizesOfLenetMissAMultipleOfEight) {
  const Ended ended = run({"doctor", "--shapes", "model=lenet"});
  EXPECT_EQ(ended.out,
            "weight        out   in   pad to\n"
            "conv1.weight    6    1     8, 8\n"
            "conv2.weight   16    6    16, 8\n"
            "fc2.weight     84  120  88, 120\n"
            "fc3.weight     10   84   16, 88\n")
      << ended.err;
}

TEST_F(Program, DoctorRefusesWhatItCannotDo) {
  expect_refusal({"doctor", "--stress", "0"}, 2, "--stress '0': it takes a number from 1 to 65536");
  expect_refusal({"doctor", "--stress", "big"}, 2, "--stress 'big'");
  expect_refusal({"doctor", "model=lenet"}, 2, "only --shapes takes a config");
  expect_refusal({"doctor", "--color"}, 2, "--color");
}

// The fake driver has a GPU that fits; the CUDA runtime, which is real, finds none.
TEST_F(Program, AGpuThatOnlyTheDriverKnowsIsNotUsed) {
  if (device_count(Device::cuda) > 0 || cuda_code.runtime == 0) GTEST_SKIP() << "no such machine";
  const char* const reason = "the driver has a GPU that the CUDA runtime cannot use";
  expect_refusal({"bench", "dispatch", "--device", "cuda"}, 2, reason, on_machine("13000", "90"));
  const Ended ended = run({"train", "train.epochs=1", "data.train_size=64", "data.test_size=64",
                           "data.batch_size=32", "--run-dir", "auto"},
                          on_machine("13000", "90"));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out + ended.err, HasSubstr(cat("device: auto -> cpu (", reason, ")")));
}

// A peak that is no peak would make every rate look good. AMX tiles do sixteen times what f32 does.
TEST(FmaRate, OfBf16IsThatOfTheTiles) {
  if (environment()["vector_units"].dump().find("amx_bf16") == std::string::npos)
    GTEST_SKIP() << "without AMX the two rates are too close to tell apart beside other tests";
  EXPECT_GT(fma_rate(DType::bf16), 4 * fma_rate(DType::f32));
}

// ---- libraries in the working folder are never loaded

class Planted : public Program {
 protected:
  void plant(const std::vector<std::string>& names) {
    for (const std::string& name : names)
      fs::copy_file(fakes_dir() + "/libplanted.so", folder_ / name);
  }
  // Returns whether code in the working folder ran.
  bool runs_code(const std::function<void()>& in_child = {}) {
    const Ended ended = run({"doctor"}, in_child);
    EXPECT_NE(ended.out, "") << ended.err;
    return fs::remove(folder_ / "code_ran");
  }
};

static const std::vector<std::string> kOpenedLater = {
    "libcuda.so.1", "libcudnn.so.9", "libcublasLt.so.13", "libnvrtc.so.13", "libnccl.so.2"};

TEST_F(Planted, InTheWorkingFolderIsNotLoaded) {
  plant(kOpenedLater);
  plant({"libgomp.so.1", "libdnnl.so.3", "libfmt.so.9"});
  EXPECT_FALSE(runs_code());
}

TEST_F(Planted, WhereLdLibraryPathIsRelativeIsNotLoadedLater) {
  plant(kOpenedLater);
  fs::create_directory(folder_ / "lib");
  for (const char* path : {":/nonexistent", "/nonexistent:", "/nonexistent::/none", ".", "lib/.."})
    EXPECT_FALSE(runs_code([=] { setenv("LD_LIBRARY_PATH", path, 1); })) << path;
  // An absolute folder that the user named is trusted. This also shows that the test notices code.
  EXPECT_TRUE(runs_code([this] { setenv("LD_LIBRARY_PATH", folder_.c_str(), 1); }));
}
