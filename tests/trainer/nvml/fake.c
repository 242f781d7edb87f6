// Fake NVML for tests: one GPU at 0000:3b:00.0 with known values. It gets warmer with each read.
#include <string.h>

static int device;
static unsigned degrees;

int nvmlInit_v2(void) { return degrees = 54, 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* pci, void** handle) {
  *handle = &device;
  return strcmp(pci, "0000:3b:00.0") == 0 ? 0 : 6;
}
int nvmlDeviceGetUtilizationRates(void* gpu, unsigned* use) { return use[0] = 97, use[1] = 40, 0; }
int nvmlDeviceGetMemoryInfo(void* gpu, unsigned long long* memory) {
  return memory[0] = 10, memory[1] = 3, memory[2] = 7, 0;
}
int nvmlDeviceGetPowerUsage(void* gpu, unsigned* milliwatts) { return *milliwatts = 612500, 0; }
int nvmlDeviceGetTotalEnergyConsumption(void* gpu, unsigned long long* millijoules) {
  return *millijoules = 1234500, 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* gpu, unsigned* count, void* processes) {
  return *count = 3, processes ? 0 : 7;
}
int nvmlDeviceGetTemperature(void* gpu, int sensor, unsigned* celsius) {
  return *celsius = degrees++, 0;
}
int nvmlDeviceGetClockInfo(void* gpu, int clock, unsigned* mhz) {
  return *mhz = clock == 1 ? 1980 : 3201, 0;
}
