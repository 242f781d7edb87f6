// trainer doctor: its findings on invented machines, and the real program on this one.
#include "labs/doctor/doctor.h"
#include <gmock/gmock.h>
#include "core/device/device.h"
#include "core/device/threads.h"
#include "ops/matmul/matmul.h"
#include "tests/place.h"
#include "tests/trainer/program.h"
#include "trainer/log/system.h"

using namespace bellows;
namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
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

// A GPU for which the binary, of CUDA 13.0 and sm_90, has no code.
static void plant_a100(Machine& m, int driver) {
  m.cuda.code = {13000, "90"};
  m.cuda.driver = driver;
  m.cuda.gpus = {{"NVIDIA A100", 80, 108, int64_t(40) << 30, "0000:3b:00.0"}};
  m.gpu_nodes = {1};
}

namespace {
struct PlantedMachine {
  void (*plant)(Machine& sound);
  std::vector<std::string> texts;  // of its only finding; empty if there is none
};
}  // namespace
static const PlantedMachine kMachines[] = {
    {[](Machine&) {}, {}},
    {[](Machine& m) { m.threads = 8; },
     {"8 OpenMP threads on 4 cores", "type  export OMP_NUM_THREADS=4"}},
    {[](Machine& m) { m.threads = 1; }, {}},  // nobody asked for one thread
    {[](Machine& m) { m.threads = 1, m.variables["OMP_NUM_THREADS"] = "1"; },
     {"leaves 3 of 4 cores idle", "type  unset OMP_NUM_THREADS"}},
    {[](Machine& m) { m.variables["OMP_PROC_BIND"] = "close"; }, {}},  // all cores are left
    // A quota leaves one core, not the variable.
    {[](Machine& m) { m.variables["OMP_PROC_BIND"] = "close", m.cores = m.threads = 1; }, {}},
    {[](Machine& m) {
       m.variables["OMP_PROC_BIND"] = "close", m.cores = m.threads = 1, m.affinity = {0};
     },
     {"leaves this process 1 of 4 CPUs", "type  unset OMP_PROC_BIND"}},
    // This value binds nothing.
    {[](Machine& m) {
       m.variables["OMP_PROC_BIND"] = "false", m.cores = m.threads = 1, m.affinity = {0};
     },
     {}},
    {[](Machine& m) { m.other_trainers = 1; },
     {"1 other process of this program", "threads.threads=2"}},
    {[](Machine& m) { m.other_trainers = 3; },
     {"3 other processes of this program", "threads.threads=1"}},
    {[](Machine& m) { m.libraries.push_back("/opt/intel/libiomp5.so"); },
     {"2 OpenMP runtimes", "libgomp.so.1, libiomp5.so"}},
    {[](Machine& m) {
       m.libraries.push_back("/opt/intel/libiomp5.so");
       m.variables["LD_PRELOAD"] = "/opt/intel/libiomp5.so";
     },
     {"type  unset LD_PRELOAD"}},
    {[](Machine& m) { m.variables["LD_PRELOAD"] = "/usr/lib/libjemalloc.so"; },
     {"libjemalloc.so, which is not loaded"}},
    {[](Machine& m) {
       m.variables["LD_PRELOAD"] = "/usr/lib/libjemalloc.so";
       m.libraries.push_back("/usr/lib/libjemalloc.so.2");  // the target of the link
     },
     {}},
    {[](Machine& m) { m.variables["ONEDNN_MAX_CPU_ISA"] = "AVX2"; },
     {"type  unset ONEDNN_MAX_CPU_ISA"}},
    {[](Machine& m) { m.load = 4.5; }, {"load 4.5 on 4 CPUs"}},
    {[](Machine& m) { m.optimized = false; }, {"cmake --preset release"}},
    {[](Machine& m) {
       m.cuda.code = {13000, "90"};
     },
     {}},  // without a GPU
    {[](Machine& m) { plant_a100(m, 12020); }, {"stays at 0 %: driver too old"}},
    {[](Machine& m) { plant_a100(m, 13000); }, {"wrong architecture in the binary"}},
};

TEST(Findings, AreThoseOfThePlantedFault) {
  for (const auto& [plant, texts] : kMachines) {
    Machine m = sound();
    plant(m);
    const std::vector<std::string> found = findings(m);
    ASSERT_EQ(found.size(), texts.empty() ? 0u : 1u) << testing::PrintToString(texts);
    for (const std::string& text : texts) EXPECT_THAT(found[0], HasSubstr(text));
  }
}

TEST(Findings, ADescriptionNamesTheAllocatorAndTheGpu) {
  Machine m = sound();
  m.libraries.push_back("/usr/lib/libjemalloc.so.2");
  plant_a100(m, 13000);
  EXPECT_THAT(describe(m), AllOf(HasSubstr("allocator: libjemalloc.so.2"),
                                 HasSubstr("NVIDIA A100, sm_80, 40.0 GiB, 108 SMs, 0000:3b:00.0, "
                                           "NUMA node 1")));
}

TEST(Findings, ADescriptionIsOneScreenOfLinesOfOneShape) {
  const std::vector<std::string> lines = lines_of(describe(sound()));
  EXPECT_LE(lines.size(), 12u);
  for (const std::string& line : lines)
    EXPECT_EQ(line.find_first_not_of(' ', line.find(' ')), 11U) << line;
}

// ---- the stress test

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
                               HasSubstr("\n      export OMP_NUM_THREADS=")));
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
      {"13000", "52", with_cuda ? "the Fake GPU is sm_52; configure with" : none},
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
