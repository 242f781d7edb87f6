#include "trainer/log/nvml.h"
#include <gtest/gtest.h>
#include <chrono>
#include "tests/place.h"

using namespace bellows;

static std::optional<GpuLoad> load_of(const std::string& pci) {
  return Nvml(pci, (fakes_dir() + "/libfake_nvml.so").c_str()).read();
}

TEST(Nvml, ReadsTheGpuAtThatAddress) {
  const std::optional<GpuLoad> load = load_of("0000:3b:00.0");
  ASSERT_TRUE(load);
  EXPECT_DOUBLE_EQ(load->utilization, 0.97);
  EXPECT_EQ(load->memory_bytes, 7);
  EXPECT_DOUBLE_EQ(load->power_w, 612.5);
  EXPECT_EQ(load->temperature_c, 54);
  EXPECT_EQ(load->sm_clock_mhz, 1980);
  EXPECT_EQ(load->throttle, 0u) << "of a library that lacks the function";
  EXPECT_EQ(load->processes, 3u);
  EXPECT_EQ(text_of(load), "SM 1980 MHz, 612.5 W, 54 degrees C, throttle reasons 0x0");
}

TEST(Nvml, ReadsTheEnergyMeterAndSaysNothingOfAGpuThatIsNotThere) {
  const std::string library = fakes_dir() + "/libfake_nvml.so";
  EXPECT_DOUBLE_EQ(Nvml("0000:3b:00.0", library.c_str()).energy_j().value(), 1234.5);
  EXPECT_FALSE(Nvml("0000:00:00.0", library.c_str()).energy_j());
  EXPECT_FALSE(load_of("0000:00:00.0"));
  EXPECT_FALSE(open_nvml(Device::cpu));
  EXPECT_FALSE(GpuMonitor(Nvml("0000:3b:00.0", "no-such-library.so")).latest());
}

TEST(Nvml, AMonitorReadsAgainAndAgain) {
  const GpuMonitor monitor(Nvml("0000:3b:00.0", (fakes_dir() + "/libfake_nvml.so").c_str()));
  const double first = monitor.latest()->temperature_c;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (monitor.latest()->temperature_c == first)
    ASSERT_LT(std::chrono::steady_clock::now(), limit);
}
