#include "dist/rendezvous/store_server.h"
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <system_error>
#include <tuple>
#include "core/base/output.h"
#include "core/base/trace.h"

namespace bellows {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kHandshake{2}, kFarewell{5}, kQuiet{1};
constexpr milliseconds kTick{50};
constexpr int kConnectionsOfRank = 64, kStrangers = 64;

struct StoreServer::Client {
  explicit Client(int socket) : socket(socket) {}
  bool stranger() const { return rank < 0; }
  // Reads no request before the last answer is sent, so a client that reads none cannot fill
  // memory.
  short wanted_events() const {
    if (!out.empty()) return POLLOUT;
    return in.size() < kMaxFrame + 4 ? POLLIN : 0;
  }

  Descriptor socket;
  Clock::time_point since = Clock::now();
  int rank = -1;                       // until its hello
  std::string in, out;                 // received and not yet handled; not yet sent
  std::optional<std::string> awaited;  // key of a get that waits
  bool refused = false;                // to be dropped once `out` is sent
  bool dropped = false;
};

StoreServer::StoreServer(const Ranks& ranks)
    : ranks_(ranks),
      listener_(listen_on(ranks.host, ranks.world == ranks.local_world, ranks.port)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_.get() < 0) fail(Exit::distributed, "store: no descriptor left; raise  ulimit -n");
  start();
}

Ranks StoreServer::seen_from_inside() const {
  Ranks ranks = ranks_;
  std::tie(ranks.host, ranks.port) = local_address_of(listener_.get());
  return ranks;
}

void StoreServer::start() {
  try {
    thread_ = std::thread([this] {
      begin_thread("store");
      try {
        serve();
      } catch (const std::exception& error) {
        warn(cat("store: ", error.what(), "; the other ranks are cut off"));
      }
      clients_.clear();
    });
  } catch (const std::system_error&) {
    fail(Exit::memory, "store: cannot start its thread; raise the limit (ulimit -u)");
  }
}

StoreServer::~StoreServer() {
  leaving_ = true;
  const uint64_t one = 1;
  write_fully(wake_.get(), std::as_bytes(std::span(&one, 1)));
  thread_.join();
}

// ---- the loop

void StoreServer::serve() {
  std::vector<pollfd> polled;
  while (!farewell_over()) {
    const bool accepting = Clock::now() >= accept_after_;
    polled = {{wake_.get(), static_cast<short>(leaving_ ? 0 : POLLIN), 0},
              {listener_.get(), static_cast<short>(accepting ? POLLIN : 0), 0}};
    bool timed = leaving_ || !accepting;
    for (const auto& client : clients_) {
      polled.push_back({client->socket.get(), client->wanted_events(), 0});
      timed |= client->stranger();
    }
    const int ready = ::poll(polled.data(), polled.size(), timed ? kTick.count() : -1);
    if (ready < 0 && errno != EINTR) std::this_thread::sleep_for(kTick);  // out of memory
    for (size_t i = 0; ready > 0 && i < clients_.size(); ++i)
      if (polled[i + 2].revents) attend(*clients_[i], polled[i + 2].revents);
    if (ready > 0 && polled[1].revents) accept_some();
    drop_clients();
  }
}

bool StoreServer::farewell_over() {
  if (!leaving_) return false;
  const auto now = Clock::now();
  if (farewell_until_ == Clock::time_point{}) {
    farewell_until_ = now + kFarewell;
    last_request_ = now;
  }
  return now >= farewell_until_ || now >= last_request_ + kQuiet ||
         std::ranges::all_of(clients_, [](const auto& client) { return client->stranger(); });
}

// Removes clients that have been dropped, and strangers that are late or too many.
void StoreServer::drop_clients() {
  const auto too_old = Clock::now() - kHandshake;
  auto strangers = std::ranges::count_if(clients_, [](const auto& c) { return c->stranger(); });
  for (const auto& client : clients_) {
    if (!client->stranger()) continue;
    client->dropped |= client->since < too_old || strangers > kStrangers + ranks_.world;
    if (client->dropped) {
      --strangers;
      trace::count<"dist.store_strangers">();
    }
  }
  std::erase_if(clients_, [](const auto& client) { return client->dropped; });
}

void StoreServer::accept_some() {
  for (int i = 0; i < 16; ++i) {
    const int socket = ::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket >= 0) {
      clients_.push_back(std::make_unique<Client>(socket));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      accept_after_ = Clock::now() + kTick;  // out of descriptors: retry once a stranger is dropped
      return;
    }
  }
}

void StoreServer::attend(Client& client, short events) {
  std::string why;
  StoreFrame frame;
  bool open = events & (POLLIN | POLLOUT);  // false: an error alone
  if (events & POLLIN) open = receive_some(client.socket.get(), client.in, why);
  if (events & POLLOUT) open = send_some(client.socket.get(), client.out, why);
  client.dropped |= !open;
  while (!client.dropped && !client.refused && !client.awaited && client.out.empty()) {
    const Unpacked result = unpack(client.in, client.stranger() ? kMaxHello : kMaxFrame, frame);
    if (result == Unpacked::incomplete) break;
    if (result == Unpacked::invalid)
      client.dropped = true;
    else if (client.stranger())
      greet(client, frame);
    else
      handle(client, std::move(frame));
  }
  client.dropped |= client.refused && client.out.empty();
}

// ---- the first frame

// Takes the same time for all tokens of one length, so timing reveals nothing about the token.
static bool same_token(const std::string& a, const std::string& b) {
  unsigned char difference = a.size() != b.size();
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) difference |= a[i] ^ b[i];
  return !difference;
}

void StoreServer::greet(Client& client, const StoreFrame& hello) {
  std::istringstream words(hello.value);
  std::string magic;
  words >> magic;
  if (hello.word != Word::hello || magic != kMagic) {
    client.dropped = true;
    return;
  }
  int rank = -1;
  const std::string reason = objection(hello, words, rank);
  if (reason.empty()) {
    client.rank = rank;
    answer(client, Word::ok);
  } else {
    put(cat(ranks_.attempt, "/rendezvous/refused"), reason);
    client.refused = true;
    answer(client, Word::refused, reason);
  }
}

// Returns why the process cannot be a rank of this run. If it can, returns "" and sets `rank`.
std::string StoreServer::objection(const StoreFrame& hello, std::istringstream& rest, int& rank) {
  int version = 0, claimed = -1, world = 0;
  uint64_t process = 0;
  std::string attempt;
  rest >> version;
  if (version != kVersion)
    return "its program has another version; start the same one on all machines";
  if (!same_token(hello.key, ranks_.token))
    return "its token differs, so the port belongs to another run; set dist.store_port";
  rest >> claimed >> world >> process >> attempt;
  if (attempt != ranks_.attempt)
    return cat("it belongs to attempt ", attempt, ", rank 0 to attempt ", ranks_.attempt,
               "; end the ranks of the earlier attempt");
  if (world != ranks_.world || claimed < 0 || claimed >= world)
    return cat("it is rank ", claimed, " of ", world, ", but rank 0 expects ", ranks_.world,
               " ranks; start all with one launcher");
  if (processes_.try_emplace(claimed, process).first->second != process)
    return cat("another process is rank ", claimed, " already; give each rank its own number");
  const auto held =
      std::ranges::count_if(clients_, [&](const auto& c) { return c->rank == claimed; });
  if (held >= kConnectionsOfRank) return "it has too many connections; use fewer threads";
  rank = claimed;
  return "";
}

// ---- requests

void StoreServer::handle(Client& client, StoreFrame request) {
  last_request_ = Clock::now();
  const auto found = values_.find(request.key);
  switch (request.word) {
    case Word::set:
      put(request.key, std::move(request.value));
      return answer(client, Word::ok);
    case Word::get:
      if (found != values_.end()) return answer(client, Word::ok, found->second);
      client.awaited = std::move(request.key);
      return;
    case Word::find:
      if (found != values_.end()) return answer(client, Word::ok, found->second);
      return answer(client, Word::absent);
    case Word::add:
      return add(client, request.key, request.value);
    case Word::remove:
      values_.erase(request.key);
      return answer(client, Word::ok);
    default:
      client.dropped = true;
  }
}

static std::optional<int64_t> integer(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

void StoreServer::add(Client& client, const std::string& key, const std::string& n) {
  const auto found = values_.find(key);
  const auto before = integer(found == values_.end() ? "0" : found->second), more = integer(n);
  int64_t sum = 0;
  if (!before || !more || __builtin_add_overflow(*before, *more, &sum))
    return answer(client, Word::refused, "it is not a counter, or would overflow");
  put(key, std::to_string(sum));
  answer(client, Word::ok, std::to_string(sum));
}

void StoreServer::put(const std::string& key, std::string value) {
  std::string& stored = values_[key];
  stored = std::move(value);
  for (const auto& client : clients_) {
    if (client->awaited != key) continue;
    client->awaited.reset();
    answer(*client, Word::ok, stored);
  }
}

void StoreServer::answer(Client& client, Word word, const std::string& value) {
  std::string why;
  client.out = pack(word, "", value);
  client.dropped |= !send_some(client.socket.get(), client.out, why);
}

}  // namespace bellows
