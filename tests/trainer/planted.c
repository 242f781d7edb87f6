// A library that leaves a file in the working folder as soon as it is loaded.
#include <fcntl.h>
#include <unistd.h>

__attribute__((constructor)) static void leave_a_trace(void) {
  close(open("code_ran", O_WRONLY | O_CREAT, 0600));
}
