#include "trainer/signals.h"
#include <unistd.h>
#include <csignal>

namespace bellows {

static volatile std::sig_atomic_t stop_signal = 0, save_requested = 0;

static constexpr int kCaught[] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};
static struct sigaction previous[4];

static void ask_to_stop(int signal) {
  // 128 + signal is what a shell shows for a process that the signal has ended.
  if (stop_signal) _exit(128 + signal);
  stop_signal = signal;
}
static void ask_to_save(int) { save_requested = 1; }

Signals::Signals() {
  stop_signal = 0;
  save_requested = 0;
  void (*const handlers[])(int) = {ask_to_stop, ask_to_stop, ask_to_save, SIG_IGN};
  for (int i = 0; i < 4; ++i) {
    struct sigaction action = {};
    action.sa_handler = handlers[i];
    action.sa_flags = SA_RESTART;  // a read or write in progress goes on
    sigaction(kCaught[i], &action, &previous[i]);
  }
}

Signals::~Signals() {
  for (int i = 0; i < 4; ++i) sigaction(kCaught[i], &previous[i], nullptr);
}

int Signals::stop() const { return stop_signal; }

bool Signals::take_save_request() {
  const bool asked = save_requested;
  save_requested = 0;
  return asked;
}

}  // namespace bellows
