#include "dist/rendezvous/tcp_store.h"
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <sys/random.h>
#include <unistd.h>
#include <cstring>
#include <thread>

namespace bellows {

struct FrameHead {  // before the bytes of the key and the value
  uint32_t value;
  uint16_t key;
  Word word;
};

std::string pack(const StoreFrame& f) {
  const FrameHead head{uint32_t(f.value.size()), uint16_t(f.key.size()), f.word};
  return std::string(reinterpret_cast<const char*>(&head), sizeof(head)) + f.key + f.value;
}

bool unpack(std::string& bytes, size_t max, StoreFrame& frame, bool& bad) {
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

std::string random_nonce() {
  std::string bytes(kNonce, '\0');
  if (getrandom(bytes.data(), kNonce, 0) != kNonce) fail(Exit::internal, "getrandom failed");
  return bytes;
}

std::string proof_of(const std::string& token, const std::string& text) {
  // OpenSSL's configuration file, which may name libraries to load, is not read.
  OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr);
  unsigned char mac[32];
  if (!HMAC(EVP_sha256(), token.data(), int(token.size()),
            reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac, nullptr))
    fail(Exit::memory, "store: OpenSSL computes no HMAC; free some memory");
  return {reinterpret_cast<const char*>(mac), sizeof(mac)};
}

bool same_proof(const std::string& a, const std::string& b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

static std::string within(Timeout limit) { return cat(" within ", limit.count() / 1e3, " s"); }

TcpStore::TcpStore(const Ranks& ranks, Timeout timeout) try
    : ranks_(ranks),
      timeout_(timeout),
      rank0_(cat("rank 0 at ", ranks.host, " port ", ranks.port)),
      place_(cat(kVersion, " ", ranks.rank, " ", ranks.world, " ", ranks.attempt, " ", getpid(),
                 "-", Clock::now().time_since_epoch().count(), " ")),
      presence_(connect("presence", deadline_after(timeout), true)) {
} catch (const Lost& lost) {
  fail(Exit::distributed, "rendezvous: rank 0 at ", ranks.host, " port ", ranks.port,
       " did not answer rank ", ranks.rank, within(timeout),
       lost.why.empty() ? "" : " (" + lost.why + ")", "; its output may have the cause");
}

TcpStore::~TcpStore() {
  std::string bye = pack({Word::bye}), why;
  if (!std::uncaught_exceptions() && deadline_.load() > Clock::now() + std::chrono::hours(10000))
    transfer(presence_->get(), bye, why, why);
}

std::string TcpStore::get(const std::string& key, Timeout timeout) {
  if (const auto value = find(key, timeout)) return *value;
  fail(Exit::distributed, "store: no rank set '", key, "'", within(timeout),
       "; a rank is late or has ended");
}

// Returns the answer. Throws Lost, also when another thread calls end_within().
StoreFrame TcpStore::exchange(int socket, std::string request, Clock::time_point deadline) const {
  std::string received, why;
  StoreFrame answer;
  for (bool bad = false; !unpack(received, kMaxValue, answer, bad);) {
    if (bad) throw Lost{"it speaks another protocol"};
    const bool ready = wait_for_socket(socket, request.empty() ? POLLIN : POLLOUT,
                                       std::min(deadline, Clock::now() + Timeout(100)));
    if (ready ? !transfer(socket, request, received, why) : over(deadline)) throw Lost{why};
  }
  return answer;
}

// Throws Lost unless rank 0 of this run is at the other end.
void TcpStore::shake_hands(int socket, const char* purpose, Clock::time_point deadline) const {
  StoreFrame hello{Word::hello, random_nonce(), place_ + purpose};
  const std::string said = exchange(socket, "", deadline).value + hello.key + hello.value;
  hello.key += proof_of(ranks_.token, "rank" + said);
  const StoreFrame answer = exchange(socket, pack(hello), deadline);
  if (answer.word == Word::refused)
    fail(Exit::distributed, "rendezvous: ", rank0_, " refused rank ", ranks_.rank, ": ",
         answer.value);
  if (!same_proof(answer.value, proof_of(ranks_.token, "store" + said)) ||
      (ranks_.token.empty() && !is_of_this_user(socket)))
    throw Lost{"another program, or one with another token, listens there"};
}

// Returns a connection that rank 0 has accepted. Throws Lost after the deadline and, unless it is
// `patient`, if no process listens.
TcpStore::Connection TcpStore::connect(const char* purpose, Clock::time_point deadline,
                                       bool patient) const {
  Lost lost;
  for (Timeout pause{2};; pause = std::min(2 * pause, Timeout(250))) {
    const int socket = connect_to(ranks_.host, ranks_.port, deadline, lost.why);
    auto connection = std::make_unique<Descriptor>(socket);
    try {
      if (socket >= 0) return shake_hands(socket, purpose, deadline), std::move(connection);
    } catch (const Lost& broken) {
      if (!broken.why.empty()) lost = broken;
    }
    if (over(deadline) || (socket < 0 && !patient)) throw lost;
    std::this_thread::sleep_until(std::min(deadline, Clock::now() + pause));
  }
}

// Returns the value, or nothing if there is none or a get has waited for `limit`. Throws if rank 0
// does not answer: a caller that took the silence for an absent key would request the next key, and
// wait as long again.
std::optional<std::string> TcpStore::ask(Word word, const std::string& key,
                                         const std::string& value, Timeout limit) {
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
    answer = exchange(connection->get(), pack({word, ranks_.attempt + "/" + key, value}), deadline);
  } catch (const Lost& lost) {  // closes the connection: another request would read its late answer
    if (!over(deadline))
      fail(Exit::distributed, "store: ", rank0_, " is gone (", lost.why, ") when asked for '", key,
           "'; its output has the cause");
    if (word == Word::get) return {};
    fail(Exit::distributed, "store: ", rank0_, " did not answer for '", key, "'",
         limit.count() ? within(limit) : "", "; it hangs, or the network does");
  }
  if (answer.word == Word::refused) fail(Exit::distributed, "store: '", key, "': ", answer.value);
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(connection));
  return answer.word == Word::ok ? std::optional(answer.value) : std::nullopt;
}

}  // namespace bellows
