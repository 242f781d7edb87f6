// TcpStore: a rank's access to the store that rank 0 serves, and the frames in which they talk.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>
#include "dist/rendezvous/rendezvous.h"
#include "dist/rendezvous/sockets.h"

namespace bellows {

// Both sides prove that they know the token, which is never sent. The rank proves it first, so that
// a stranger receives nothing from which to guess the token.
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
constexpr size_t kMaxKey = 256, kMaxValue = 1 << 20, kMaxHello = 1024, kNonce = 32;
constexpr char kVersion[] = "bellows-store-2";

std::string pack(const StoreFrame& f);
// Takes the first frame from `bytes`. Returns false if the frame is incomplete or, with `bad` set,
// malformed or larger than `max`.
bool unpack(std::string& bytes, size_t max, StoreFrame& frame, bool& bad);
std::string random_nonce();
// Returns the HMAC-SHA256 (RFC 2104) of `text` under the token.
std::string proof_of(const std::string& token, const std::string& text);
bool same_proof(const std::string& a, const std::string& b);  // in constant time

// Each call uses an idle or new connection, so a get() that waits does not block other threads.
class TcpStore : public Store {
 public:
  // Connects to ranks.host, retrying until rank 0 answers. `timeout` limits the connecting, and
  // each call that does not wait for a key. Throws Error, exit 7, also if rank 0 refuses this rank.
  TcpStore(const Ranks& ranks, Timeout timeout);
  ~TcpStore() override;  // says goodbye to rank 0, unless this rank ends with an error

  void set(const std::string& key, const std::string& v) override { ask(Word::set, key, v); }
  std::string get(const std::string& key, Timeout timeout) override;
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

  bool over(Clock::time_point deadline) const {
    return Clock::now() >= std::min(deadline, deadline_.load());
  }
  StoreFrame exchange(int socket, std::string request, Clock::time_point deadline) const;
  void shake_hands(int socket, const char* purpose, Clock::time_point deadline) const;
  Connection connect(const char* purpose, Clock::time_point deadline, bool patient) const;
  std::optional<std::string> ask(Word word, const std::string& key, const std::string& value = "",
                                 Timeout limit = Timeout::max());
  std::optional<std::string> find(const std::string& key, Timeout timeout) {
    return ask(timeout.count() ? Word::get : Word::find, key, "", timeout);
  }

  const Ranks ranks_;
  const Timeout timeout_;
  const std::string rank0_;  // "rank 0 at 127.0.0.1 port 29500"
  const std::string place_;  // place of this process, sent in the hello
  std::atomic<Clock::time_point> deadline_ = Clock::time_point::max();
  const Connection presence_;  // carries no requests; rank 0 sees it end when this process does
  std::mutex mutex_;           // guards idle_
  std::vector<Connection> idle_;
};

}  // namespace bellows
