// TcpStore: a rank's access to the store that rank 0 serves (dist/rendezvous/store_server.h).
#pragma once
#include <poll.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>
#include "dist/rendezvous/rendezvous.h"
#include "dist/rendezvous/sockets.h"
#include "dist/rendezvous/store_frames.h"

namespace bellows {

// A call takes an idle connection or makes one, so a get() that waits does not block other threads.
// Keys are prefixed by ranks.attempt. The destructor disconnects, from which rank 0 concludes that
// this rank has no more requests.
class TcpStore : public Store {
 public:
  // Connects to ranks.host, retrying until rank 0 answers. `timeout` limits that, and later each
  // call that does not wait for a key. Throws Error, exit 7, after the timeout or if rank 0 refuses
  // this rank.
  TcpStore(const Ranks& ranks, Timeout timeout)
      : ranks_(ranks), timeout_(timeout), hello_(hello_of(ranks)) {
    std::string why;
    presence_ = connect(deadline_after(timeout), true, why);
    if (!presence_)
      fail(Exit::distributed, "rendezvous: ", rank0(), " did not answer rank ", ranks.rank,
           " within ", in_seconds(timeout), why.empty() ? "" : " (", why, why.empty() ? "" : ")",
           "; its output may have the cause");
  }

  void set(const std::string& key, const std::string& value) override {
    ask_now(Word::set, key, value);
  }
  std::string get(const std::string& key, Timeout timeout) override {
    std::optional<std::string> value = value_of(key, timeout);
    if (!value)
      fail(Exit::distributed, "store: no rank set '", key, "' within ", in_seconds(timeout),
           "; a rank is late or has ended");
    return *std::move(value);
  }
  bool wait(const std::string& key, Timeout timeout) override {
    return value_of(key, timeout).has_value();
  }
  int64_t add(const std::string& key, int64_t n) override {
    return std::stoll(ask_now(Word::add, key, std::to_string(n)).value);
  }
  void remove(const std::string& key) override { ask_now(Word::remove, key, ""); }
  void end_within(Timeout limit) override { deadline_ = deadline_after(limit); }

 private:
  using Connection = std::unique_ptr<Descriptor>;

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

  // Returns a connection that rank 0 has accepted, or null with the reason in `why`, which is empty
  // after the deadline. `patient`: also retries while no process listens.
  Connection connect(Clock::time_point deadline, bool patient, std::string& why) {
    for (Timeout pause{2};; pause = std::min(2 * pause, Timeout(250))) {
      auto socket =
          std::make_unique<Descriptor>(connect_to(ranks_.host, ranks_.port, deadline, why));
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

  // Returns the answer, or nothing after the timeout. The connection is then closed, because the
  // late answer would be taken for that of the next request.
  std::optional<StoreFrame> ask(Word word, const std::string& key, const std::string& value,
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
      answer = exchange(connection->get(), pack(word, cat(ranks_.attempt, "/", key), value),
                        deadline, why);
    if (!answer && !why.empty())
      fail(Exit::distributed, "store: ", rank0(), " is gone (", why, ") when asked for '", key,
           "'; its output has the cause");
    if (!answer) return {};
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(connection));
    return answer;
  }

  // Returns `timeout`, or the time until the deadline if that is shorter.
  Timeout limited(Timeout timeout) const { return std::min(timeout, until(deadline_, Timeout(0))); }

  StoreFrame ask_now(Word word, const std::string& key, const std::string& value) {
    const Timeout timeout = limited(timeout_);
    std::optional<StoreFrame> answer = ask(word, key, value, timeout);
    if (!answer)
      fail(Exit::distributed, "store: ", rank0(), " did not answer for '", key, "'",
           timeout.count() ? " within " + in_seconds(timeout) : "",
           "; it hangs, or the network does");
    INVARIANT(answer->word != Word::refused, "store: '", key, "': ", answer->value);
    return *std::move(answer);
  }

  // With a timeout of 0 the key is looked up once. Throws if rank 0 does not answer that: a caller
  // that took it for an absent key would ask for the next one, and wait as long again.
  std::optional<std::string> value_of(const std::string& key, Timeout timeout) {
    const std::optional<StoreFrame> answer =
        timeout > Timeout::zero() ? ask(Word::get, key, "", timeout) : ask_now(Word::find, key, "");
    if (!answer || answer->word != Word::ok) return {};
    return answer->value;
  }

  std::string rank0() const { return cat("rank 0 at ", ranks_.host, " port ", ranks_.port); }

  const Ranks ranks_;
  const Timeout timeout_;
  std::atomic<Clock::time_point> deadline_ = Clock::time_point::max();
  const std::string hello_;
  Connection presence_;  // carries no requests; rank 0 counts this rank as present while it is open
  std::mutex mutex_;     // guards idle_
  std::vector<Connection> idle_;
};

}  // namespace bellows
