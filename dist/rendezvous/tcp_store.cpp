#include "dist/rendezvous/tcp_store.h"
#include <poll.h>
#include <unistd.h>
#include <algorithm>
#include <thread>

namespace bellows {

using std::chrono::milliseconds;

static std::string in_seconds(Timeout timeout) {
  return cat(static_cast<double>(timeout.count()) / 1000, " s");
}

// `process` distinguishes this process from another one that claims the same rank.
static std::string hello_of(const Ranks& ranks) {
  const auto now = static_cast<uint64_t>(Clock::now().time_since_epoch().count());
  const uint64_t process = now ^ static_cast<uint64_t>(getpid()) << 40;
  return pack(Word::hello, ranks.token,
              cat(kMagic, " ", kVersion, " ", ranks.rank, " ", ranks.world, " ", process, " ",
                  ranks.attempt));
}

// Returns the answer, or nothing with the reason in `why`, which is empty after the deadline.
static std::optional<StoreFrame> exchange(int socket, std::string request,
                                          Clock::time_point deadline, std::string& why) {
  std::string received;
  StoreFrame answer;
  why.clear();
  for (;;) {
    const bool sending = !request.empty();
    if (!wait_for_socket(socket, sending ? POLLOUT : POLLIN, deadline)) return {};
    if (!(sending ? send_some(socket, request, why) : receive_some(socket, received, why)))
      return {};
    const Unpacked result = unpack(received, kMaxFrame, answer);
    if (result == Unpacked::frame) return answer;
    if (result == Unpacked::invalid) why = "it speaks another protocol";
    if (!why.empty()) return {};
  }
}

TcpStore::TcpStore(const Ranks& ranks, Timeout timeout)
    : ranks_(ranks), timeout_(timeout), hello_(hello_of(ranks)) {
  std::string why;
  presence_ = connect(deadline_after(timeout), true, why);
  if (!presence_)
    fail(Exit::distributed, "rendezvous: ", rank0(), " did not answer rank ", ranks.rank,
         " within ", in_seconds(timeout), why.empty() ? "" : " (", why, why.empty() ? "" : ")",
         "; its output may have the cause");
}

// Returns a connection that rank 0 has accepted, or null with the reason in `why`, which is empty
// after the deadline. `patient`: also retries while no process listens.
TcpStore::Connection TcpStore::connect(Clock::time_point deadline, bool patient, std::string& why) {
  for (milliseconds pause{2};; pause = std::min(2 * pause, milliseconds(250))) {
    auto socket = std::make_unique<Descriptor>(connect_to(ranks_.host, ranks_.port, deadline, why));
    if (socket->get() >= 0) {
      const auto answer = exchange(socket->get(), hello_, deadline, why);
      if (answer && answer->word == Word::ok) return socket;
      if (answer && answer->word == Word::refused)
        fail(Exit::distributed, "rendezvous: ", rank0(), " refused rank ", ranks_.rank, ": ",
             answer->value);
    } else if (!patient) {
      if (Clock::now() >= deadline) why.clear();
      return nullptr;
    }
    if (Clock::now() >= deadline) return nullptr;
    std::this_thread::sleep_until(std::min(deadline, Clock::now() + pause));
  }
}

// ---- requests

// Returns the answer, or nothing after the timeout. The connection is then closed, because the late
// answer would be taken for that of the next request.
std::optional<StoreFrame> TcpStore::ask(Word word, const std::string& key, const std::string& value,
                                        Timeout timeout) {
  INVARIANT(key.size() <= kMaxKey && value.size() <= kMaxValue, "store: key of ", key.size(),
            " bytes, value of ", value.size(), ", at most ", kMaxKey, " and ", kMaxValue);
  const auto deadline = deadline_after(limited(timeout));
  Connection connection;
  if (const std::lock_guard lock(mutex_); !idle_.empty()) {
    connection = std::move(idle_.back());
    idle_.pop_back();
  }
  std::string why;
  std::optional<StoreFrame> answer;
  if (!connection) connection = connect(deadline, false, why);
  if (connection)
    answer = exchange(connection->get(), pack(word, cat(ranks_.attempt, "/", key), value), deadline,
                      why);
  if (!answer && !why.empty())
    fail(Exit::distributed, "store: ", rank0(), " is gone (", why, ") when asked for '", key,
         "'; its output has the cause");
  if (!answer) return {};
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(connection));
  return answer;
}

// Returns `timeout`, or the time until the deadline if that is shorter.
Timeout TcpStore::limited(Timeout timeout) const {
  return std::min(timeout, until(deadline_, Timeout(0)));
}

StoreFrame TcpStore::ask_now(Word word, const std::string& key, const std::string& value) {
  const Timeout timeout = limited(timeout_);
  std::optional<StoreFrame> answer = ask(word, key, value, timeout);
  if (!answer)
    fail(Exit::distributed, "store: ", rank0(), " did not answer for '", key, "'",
         timeout.count() ? " within " + in_seconds(timeout) : "",
         "; it hangs, or the network does");
  INVARIANT(answer->word != Word::refused, "store: '", key, "': ", answer->value);
  return *std::move(answer);
}

void TcpStore::set(const std::string& key, const std::string& value) {
  ask_now(Word::set, key, value);
}

int64_t TcpStore::add(const std::string& key, int64_t n) {
  return std::stoll(ask_now(Word::add, key, std::to_string(n)).value);
}

void TcpStore::remove(const std::string& key) { ask_now(Word::remove, key, ""); }

// With a timeout of 0 the key is looked up once. Throws if rank 0 does not answer that: a caller
// that took it for an absent key would ask for the next one, and wait as long again.
std::optional<std::string> TcpStore::value_of(const std::string& key, Timeout timeout) {
  const std::optional<StoreFrame> answer =
      timeout > Timeout::zero() ? ask(Word::get, key, "", timeout) : ask_now(Word::find, key, "");
  if (!answer || answer->word != Word::ok) return {};
  return answer->value;
}

std::string TcpStore::get(const std::string& key, Timeout timeout) {
  std::optional<std::string> value = value_of(key, timeout);
  if (!value)
    fail(Exit::distributed, "store: no rank set '", key, "' within ", in_seconds(timeout),
         "; a rank is late or has ended");
  return *std::move(value);
}

bool TcpStore::wait(const std::string& key, Timeout timeout) {
  return value_of(key, timeout).has_value();
}

}  // namespace bellows
