#include "trainer/run/signals.h"
#include <pthread.h>
#include <unistd.h>
#include <atomic>
#include <csignal>
#include <mutex>
#include <system_error>
#include <thread>
#include "core/base/check.h"
#include "core/base/file.h"
#include "core/base/trace.h"

namespace bellows {

static std::atomic<int> stop_signal = 0;
static std::atomic<bool> recording = false, save_requested = false, no_thread = false;
static std::atomic<bool> stop_sent_by[2] = {};  // [0]: by another process, [1]: by the parent
constexpr int64_t kBurstNs = 100'000'000;
static std::atomic<int64_t> burst_end_ns = 0;  // end of the burst of the last accepted stop signal

static std::mutex relay_lock;
static const std::function<void(int)>* relay = nullptr;  // guarded by relay_lock

static sigset_t make_set(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

static const sigset_t kTaken = make_set({SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU});

// Acts as a program without signal handling: the shell sees the process killed by this signal. A
// signal that was ignored at start-up (nohup) stays ignored.
static void take_default_action(int signal) {
  const sigset_t one = make_set({signal});
  struct sigaction action = {};
  sigaction(signal, nullptr, &action);
  if (action.sa_handler == SIG_DFL) remove_own_temporaries();
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  raise(signal);
  pthread_sigmask(SIG_BLOCK, &one, nullptr);
}

static bool relayed(int signal) {
  const std::lock_guard lock(relay_lock);
  if (relay) (*relay)(signal);
  return relay;
}

// A supervisor may signal each process of a job, and a launcher passes the same signal on to its
// ranks. So a stop signal from the parent and one from another sender are one request.
static void request_stop(int signal, bool by_parent) {
  stop_signal = signal;
  if (!stop_sent_by[by_parent].exchange(true)) return;
  remove_own_temporaries();
  _exit(128 + signal);  // the exit code that a shell reports for a process killed by it
}

// `timeout` signals its child and then the process group, so one request may arrive twice.
static bool repeats(int signal) {
  if (signal != SIGINT && signal != SIGTERM) return false;
  const int64_t now = trace::now_ns();
  if (now < burst_end_ns) return true;
  burst_end_ns = now + kBurstNs;
  return false;
}

static void take(int signal, bool by_parent) {
  if (repeats(signal) || relayed(signal)) return;
  int none = 0;
  if (signal == SIGUSR1 || signal == SIGUSR2)
    save_requested = true;
  else if (!recording)
    take_default_action(signal);
  else if (signal == SIGXCPU)  // the system repeats it every second
    stop_signal.compare_exchange_strong(none, SIGTERM);
  else if (signal != SIGHUP)
    request_stop(signal, by_parent);
}

static void take_all() {
  pthread_setname_np(pthread_self(), "signals");
  for (siginfo_t info;;)  // a terminal's signals have no sender
    if (sigwaitinfo(&kTaken, &info) > 0)
      take(info.si_signo, info.si_code <= 0 && info.si_pid == getppid());
}

const char* name_of_signal(int signal) { return signal == SIGINT ? "SIGINT" : "SIGTERM"; }

void wait_for_signals() {
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_sigmask(SIG_BLOCK, &kTaken, nullptr);
    try {
      std::thread(take_all).detach();
    } catch (const std::system_error&) {
      no_thread = true;  // verbs that compute nothing still work
      pthread_sigmask(SIG_UNBLOCK, &kTaken, nullptr);
    }
  });
}

Signals::Signals(std::function<void(int)> pass_on) : pass_on_(std::move(pass_on)) {
  if (no_thread)
    fail(Exit::memory,
         "cannot start the thread that waits for signals; raise the limit (ulimit -u)");
  const std::lock_guard lock(relay_lock);
  stop_signal = 0;
  for (std::atomic<bool>& sent : stop_sent_by) sent = false;
  burst_end_ns = 0;
  pass_on_ ? void(relay = &pass_on_) : void(recording = true);
}

Signals::~Signals() {
  const std::lock_guard lock(relay_lock);
  pass_on_ ? void(relay = nullptr) : void(recording = false);
}

int Signals::stop() const { return stop_signal; }

bool Signals::take_save_request() { return save_requested.exchange(false); }

}  // namespace bellows
