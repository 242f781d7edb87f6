// Saves a file of tensors and prints "saved" once it is durable:  fault_save PATH VALUE
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include "core/tensor/safetensors.h"

using namespace bellows;

int main(int, char** argv) try {
  std::signal(SIGXFSZ, SIG_IGN);  // like the trainer: an error, not a fatal signal
  write_safetensors(argv[1], {{"w", full({20000}, std::atof(argv[2]))}});
  std::puts("saved");
  return 0;
} catch (const Error& error) {
  std::puts(error.what());
  return static_cast<int>(error.exit);
}
