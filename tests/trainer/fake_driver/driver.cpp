// Fake libcuda.so.1 of a machine with one GPU, for tests of the program. FAKE_DRIVER_CUDA (12040)
// and FAKE_GPU_ARCH (75; 0: no GPU) set its answers. It runs nothing.
#include <cstdio>
#include <cstdlib>

static int number(const char* variable) {
  const char* const text = std::getenv(variable);
  return text ? std::atoi(text) : 0;
}
static int arch() { return number("FAKE_GPU_ARCH"); }

extern "C" {
int cuDriverGetVersion(int* version) {
  *version = number("FAKE_DRIVER_CUDA");
  return 0;
}
int cuInit(unsigned) { return arch() ? 0 : 100; }
int cuGetErrorString(int, const char** text) {
  *text = "no CUDA-capable device is detected";
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = 1;
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}
int cuDeviceGetName(char* name, int size, int) {
  std::snprintf(name, size, "Fake GPU");
  return 0;
}
int cuDeviceGetPCIBusId(char* address, int size, int) {
  std::snprintf(address, size, "0000:3B:00.0");
  return 0;
}
int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = size_t(24) << 30;
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 16 ? 40 : attribute == 75 ? arch() / 10 : attribute == 76 ? arch() % 10 : 0;
  return 0;
}
}
