// Checks whether the binary fits the driver and the GPUs, for invented machines.
#include "core/device/device_info.h"
#include "tests/matchers.h"

using namespace bellows;

static CudaReport h200() {
  CudaReport report;
  report.code = {13000, "80-real 90"};
  report.driver = 13000;
  report.driver_release = "580.82.07";
  report.gpus = {{"NVIDIA H200", 90, 132, int64_t(140) << 30, "0000:3b:00.0"}};
  return report;
}

TEST(CudaTrouble, NamesWhatDoesNotFitAndWhatToDo) {
  const struct {
    std::function<void(CudaReport&)> change;
    const char* trouble;
  } cases[] = {
      {[](CudaReport&) {}, ""},
      {[](CudaReport& r) { r.driver = 0, r.gpus.clear(); }, "no CUDA driver"},
      {[](CudaReport& r) { r.driver = 12040, r.code.runtime = 12080; }, ""},  // one major version
      {[](CudaReport& r) { r.gpus.clear(), r.refusal = "no CUDA-capable device is detected"; },
       "no GPU: no CUDA-capable device is detected"},
      {[](CudaReport& r) {
         r.gpus[0] = {"Tesla T4", 75, 40, int64_t(16) << 30, ""};
       },
       "wrong architecture in the binary: it has sm_80, sm_90, PTX 90, the Tesla T4 is sm_75; "
       "configure with  -DCMAKE_CUDA_ARCHITECTURES=75"},
      {[](CudaReport& r) { r.code = {}, r.gpus.clear(); }, "this binary has no CUDA code"},
  };
  for (const auto& [change, trouble] : cases) {
    CudaReport report = h200();
    change(report);
    EXPECT_EQ(cuda_trouble(report), trouble);
  }
  CudaReport old = h200(), without_code = h200();
  old.driver = 12040;
  EXPECT_THAT(cuda_trouble(old),
              AllOf(HasSubstr("driver too old: it supports CUDA 12.4"), HasSubstr("runtime 13.0"),
                    HasSubstr("install driver 580 or later")));
  without_code.code = {};
  EXPECT_THAT(cuda_trouble(without_code),
              AllOf(HasSubstr("no CUDA code"), HasSubstr("NVIDIA H200"), HasSubstr("nvcc")));
}

TEST(Architectures, MachineCodeRunsWithinItsMajorNumberAndPtxOnAllLaterOnes) {
  EXPECT_TRUE(runs_on("80-real", 80));
  EXPECT_TRUE(runs_on("80-real", 86));
  EXPECT_FALSE(runs_on("86-real", 80));
  EXPECT_FALSE(runs_on("80-real", 90));
  EXPECT_TRUE(runs_on("80-virtual", 90));
  EXPECT_FALSE(runs_on("90-virtual", 89));
  EXPECT_TRUE(runs_on("75-real 90", 100));
  EXPECT_TRUE(runs_on("90a-real", 90));
  EXPECT_FALSE(runs_on("90a", 100)) << "code for one GPU alone";
  EXPECT_TRUE(runs_on("100f-real", 103));
  EXPECT_FALSE(runs_on("100f", 120));
  EXPECT_FALSE(runs_on("", 90));
}
