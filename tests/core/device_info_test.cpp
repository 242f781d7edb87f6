// Checks whether the binary fits the driver and the GPUs, for invented machines.
#include "core/device/device_info.h"
#include <gmock/gmock.h>
#include "core/device/device.h"

using namespace bellows;
using testing::AllOf;
using testing::HasSubstr;

static CudaReport h200() {
  CudaReport report;
  report.code = {13000, "80-real 90"};
  report.driver = 13000;
  report.driver_release = "580.82.07";
  report.gpus = {{"NVIDIA H200", 90, 132, int64_t(140) << 30, "0000:3b:00.0"}};
  return report;
}

TEST(CudaTrouble, NoneWhereBinaryDriverAndGpuFit) { EXPECT_EQ(cuda_trouble(h200()), ""); }

TEST(CudaTrouble, NoDriver) {
  CudaReport report = h200();
  report.driver = 0;
  report.gpus.clear();
  EXPECT_EQ(cuda_trouble(report), "no CUDA driver");
}

TEST(CudaTrouble, DriverTooOldNamesBothVersionsAndTheOneToInstall) {
  CudaReport report = h200();
  report.driver = 12040;
  EXPECT_THAT(cuda_trouble(report),
              AllOf(HasSubstr("driver too old: it supports CUDA 12.4"), HasSubstr("runtime 13.0"),
                    HasSubstr("install driver 580 or later")));
  report.code.runtime = 12080;  // drivers of the same major version are compatible
  EXPECT_EQ(cuda_trouble(report), "");
}

TEST(CudaTrouble, NoGpuGivesTheDriversReason) {
  CudaReport report = h200();
  report.gpus.clear();
  report.refusal = "no CUDA-capable device is detected";
  EXPECT_EQ(cuda_trouble(report), "no GPU: no CUDA-capable device is detected");
}

TEST(CudaTrouble, WrongArchitectureNamesBothAndWhatToType) {
  CudaReport report = h200();
  report.gpus[0] = {"Tesla T4", 75, 40, int64_t(16) << 30, ""};
  EXPECT_EQ(cuda_trouble(report),
            "wrong architecture in the binary: it has sm_80, sm_90, PTX 90, the Tesla T4 is sm_75; "
            "configure with  -DCMAKE_CUDA_ARCHITECTURES=75");
}

TEST(CudaTrouble, ABuildWithoutCudaBesideAGpu) {
  CudaReport report = h200();
  report.code = {};
  EXPECT_THAT(cuda_trouble(report),
              AllOf(HasSubstr("no CUDA code"), HasSubstr("NVIDIA H200"), HasSubstr("nvcc")));
  report.gpus.clear();
  EXPECT_EQ(cuda_trouble(report), "this binary has no CUDA code");
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

TEST(CudaReport, OfThisMachineAgreesWithTheRuntime) {
  const CudaReport report = cuda_report();
  if (device_count(Device::cuda) == 0) {
    EXPECT_NE(cuda_trouble(report), "");
  } else if (report.driver) {  // cuda_host has no driver
    EXPECT_EQ(cuda_trouble(report), "");
    EXPECT_EQ(int(report.gpus.size()), device_count(Device::cuda));
  }
}
