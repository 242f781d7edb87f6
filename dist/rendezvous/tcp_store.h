// TcpStore: a rank's access to the store that rank 0 serves, and the frames in which they talk.
#pragma once
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <sys/random.h>
#include <unistd.h>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>
#include "dist/rendezvous/rendezvous.h"
#include "dist/rendezvous/sockets.h"

namespace bellows {

// Both sides prove the token, which never travels. The rank proves it first, so that a stranger
// gets nothing from which to guess it.
//   store: nonce
//   rank: hello  key: its nonce and proof, value: "version rank world attempt process purpose"
//   store: ok    value: its proof
//
// bye: the rank ends without an error; not answered. get is answered once the key exists, find at
// once, with the value or `absent`. add: an integer as text, answered with the sum.
enum class Word : uint8_t { nonce, hello, bye, set, get, find, add, remove, ok, absent, refused };
struct StoreFrame {
  Word word{};
  std::string key = {}, value = {};
};
struct FrameHead {  // before the bytes of the key and the value
  uint32_t value;
  uint16_t key;
  Word word;
};
constexpr size_t kMaxKey = 256, kMaxValue = 1 << 20, kMaxHello = 1024, kNonce = 32;
constexpr char kVersion[] = "bellows-store-2";

inline std::string pack(const StoreFrame& f) {
  const FrameHead head{uint32_t(f.value.size()), uint16_t(f.key.size()), f.word};
  return std::string(reinterpret_cast<const char*>(&head), sizeof(head)) + f.key + f.value;
}
// Takes the first frame from `bytes`. Returns false if it is incomplete, or `bad`: none, or too
// large.
inline bool unpack(std::string& bytes, size_t max, StoreFrame& frame, bool& bad) {
  FrameHead head;
  if (bytes.size() < sizeof(head)) return false;
  std::memcpy(&head, bytes.data(), sizeof(head));
  bad = head.value > max || head.key > 2 * kMaxKey || head.word > Word::refused;
  const size_t value = sizeof(head) + head.key, end = value + head.value;
  if (bad || bytes.size() < end) return false;
  frame = {head.word, bytes.substr(sizeof(head), head.key), bytes.substr(value, head.value)};
  bytes.erase(0, end);
  return true;
}

inline std::string random_nonce() {
  std::string bytes(kNonce, '\0');
  if (getrandom(bytes.data(), kNonce, 0) != kNonce) fail(Exit::internal, "getrandom failed");
  return bytes;
}
// Returns the HMAC-SHA256 (RFC 2104) of `text` under the token.
inline std::string proof_of(const std::string& token, const std::string& text) {
  // OpenSSL's configuration file, which may name libraries to load, is not read.
  OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr);
  unsigned char mac[32];
  if (!HMAC(EVP_sha256(), token.data(), int(token.size()),
            reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac, nullptr))
    fail(Exit::memory, "store: OpenSSL computes no HMAC; free some memory");
  return {reinterpret_cast<const char*>(mac), sizeof(mac)};
}
inline bool same_proof(const std::string& a, const std::string& b) {  // in constant time
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

// A call takes an idle connection or makes one, so a get() that waits does not block other threads.
class TcpStore : public Store {
 public:
  // Connects to ranks.host, retrying until rank 0 answers. `timeout` limits that, and each call
  // that does not wait for a key. Throws Error, exit 7, also if rank 0 refuses this rank.
  TcpStore(const Ranks& ranks, Timeout timeout) try
      : ranks_(ranks),
        timeout_(timeout),
        presence_(connect("presence", deadline_after(timeout), true)) {
  } catch (const Lost& lost) {
    fail(Exit::distributed, "rendezvous: ", rank0(ranks), " did not answer rank ", ranks.rank,
         within(timeout), lost.why.empty() ? "" : " (" + lost.why + ")",
         "; its output may have the cause");
  }
  ~TcpStore() override {  // says goodbye to rank 0, unless this rank ends with an error
    std::string bye = pack({Word::bye}), why;
    if (!std::uncaught_exceptions() && deadline_.load() > Clock::now() + std::chrono::hours(10000))
      transfer(presence_->get(), bye, why, why);
  }

  void set(const std::string& key, const std::string& v) override { ask(Word::set, key, v); }
  std::string get(const std::string& key, Timeout timeout) override {
    if (const auto value = find(key, timeout)) return *value;
    fail(Exit::distributed, "store: no rank set '", key, "'", within(timeout),
         "; a rank is late or has ended");
  }
  bool wait(const std::string& key, Timeout timeout) override { return bool(find(key, timeout)); }
  int64_t add(const std::string& key, int64_t n) override {
    return std::stoll(*ask(Word::add, key, std::to_string(n)));
  }
  void remove(const std::string& key) override { ask(Word::remove, key); }
  void end_within(Timeout limit) override { deadline_ = deadline_after(limit); }

 private:
  using Connection = std::unique_ptr<Descriptor>;
  struct Lost {
    std::string why;  // "" after the deadline
  };
  static std::string within(Timeout limit) { return cat(" within ", limit.count() / 1e3, " s"); }
  static std::string rank0(const Ranks& r) { return cat("rank 0 at ", r.host, " port ", r.port); }

  // Returns the answer. Throws Lost, also when another thread calls end_within().
  StoreFrame exchange(int socket, std::string request, Clock::time_point deadline) const {
    std::string received, why;
    StoreFrame answer;
    for (bool bad = false; !unpack(received, kMaxValue, answer, bad);) {
      if (bad) throw Lost{"it speaks another protocol"};
      const auto end = std::min(deadline, deadline_.load());
      const bool ready = wait_for_socket(socket, request.empty() ? POLLIN : POLLOUT,
                                         std::min(end, Clock::now() + Timeout(100)));
      if (ready ? !transfer(socket, request, received, why) : Clock::now() >= end) throw Lost{why};
    }
    return answer;
  }
  // Throws Lost unless rank 0 of this run is at the other end.
  void shake_hands(int socket, const char* purpose, Clock::time_point deadline) {
    StoreFrame hello{Word::hello, random_nonce(), place_ + purpose};
    const std::string said = exchange(socket, "", deadline).value + hello.key + hello.value;
    hello.key += proof_of(ranks_.token, "rank" + said);
    const StoreFrame answer = exchange(socket, pack(hello), deadline);
    if (answer.word == Word::refused)
      fail(Exit::distributed, "rendezvous: ", rank0(ranks_), " refused rank ", ranks_.rank, ": ",
           answer.value);
    if (!same_proof(answer.value, proof_of(ranks_.token, "store" + said)) ||
        (ranks_.token.empty() && !is_of_this_user(socket)))
      throw Lost{"another program, or one with another token, listens there"};
  }
  // Returns a connection that rank 0 has accepted. Throws Lost after the deadline and, unless it is
  // `patient`, if no process listens.
  Connection connect(const char* purpose, Clock::time_point deadline, bool patient) {
    Lost lost;
    for (Timeout pause{2};; pause = std::min(2 * pause, Timeout(250))) {
      const int socket = connect_to(ranks_.host, ranks_.port, deadline, lost.why);
      auto connection = std::make_unique<Descriptor>(socket);
      try {
        if (socket >= 0) return shake_hands(socket, purpose, deadline), std::move(connection);
      } catch (const Lost& broken) {
        if (!broken.why.empty()) lost = broken;
      }
      if (Clock::now() >= deadline || (socket < 0 && !patient)) throw lost;
      std::this_thread::sleep_until(std::min(deadline, Clock::now() + pause));
    }
  }
  // Returns the value, or nothing if there is none or a get has waited for `limit`. Throws if rank
  // 0 does not answer another request: a caller that took that for an absent key would ask for the
  // next one, and wait as long again.
  std::optional<std::string> ask(Word word, const std::string& key, const std::string& value = "",
                                 Timeout limit = Timeout::max()) {
    INVARIANT(key.size() <= kMaxKey && value.size() <= kMaxValue, "store: '", key, "' is too long");
    limit = std::min(word == Word::get ? limit : timeout_, until(deadline_, Timeout(0)));
    const auto deadline = deadline_after(limit);
    Connection connection;
    if (const std::lock_guard lock(mutex_); !idle_.empty())
      connection = std::move(idle_.back()), idle_.pop_back();
    StoreFrame answer;
    try {  // an idle connection from which something can be read has ended
      if (!connection || wait_for_socket(connection->get(), POLLIN, Clock::now()))
        connection = connect("request", deadline, false);
      answer =
          exchange(connection->get(), pack({word, ranks_.attempt + "/" + key, value}), deadline);
    } catch (const Lost& lost) {  // closes the connection, whose late answer the next one would get
      if (Clock::now() < deadline)
        fail(Exit::distributed, "store: ", rank0(ranks_), " is gone (", lost.why,
             ") when asked for '", key, "'; its output has the cause");
      if (word == Word::get) return {};
      fail(Exit::distributed, "store: ", rank0(ranks_), " did not answer for '", key, "'",
           limit.count() ? within(limit) : "", "; it hangs, or the network does");
    }
    if (answer.word == Word::refused) fail(Exit::distributed, "store: '", key, "': ", answer.value);
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(connection));
    return answer.word == Word::ok ? std::optional(answer.value) : std::nullopt;
  }
  std::optional<std::string> find(const std::string& key, Timeout timeout) {
    return ask(timeout.count() ? Word::get : Word::find, key, "", timeout);
  }

  const Ranks ranks_;
  const Timeout timeout_;
  const std::string place_ = cat(kVersion, " ", ranks_.rank, " ", ranks_.world, " ", ranks_.attempt,
                                 " ", getpid(), "-", Clock::now().time_since_epoch().count(), " ");
  std::atomic<Clock::time_point> deadline_ = Clock::time_point::max();
  const Connection presence_;  // carries no requests; rank 0 sees it end when this process does
  std::mutex mutex_;           // guards idle_
  std::vector<Connection> idle_;
};

}  // namespace bellows
