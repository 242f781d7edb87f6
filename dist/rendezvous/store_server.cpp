#include "dist/rendezvous/store_server.h"
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <system_error>
#include <vector>
#include "core/base/output.h"
#include "core/base/trace.h"
#include "dist/rendezvous/tcp_store.h"

namespace bellows {

constexpr Timeout kTick{20}, kHandshake{2000}, kFarewell{2000};
constexpr int kConnectionsOfRank = 16, kStrangers = 64;
constexpr size_t kMostBytes = 64 << 20, kEntry = 128;  // kEntry: memory of a key beside its bytes

struct StoreServer::Loop {
  const Ranks& ranks;
  const int listener;

  void run(const std::atomic<bool>& leaving) {
    const auto is_rank = [](const auto& client) { return client->rank >= 0; };
    for (auto end = Clock::time_point::max(); Clock::now() < end;) {
      if (leaving) end = std::min(end, Clock::now() + kFarewell);
      if (leaving && std::ranges::none_of(clients, is_rank)) return;
      std::vector<pollfd> polled = {{listener, POLLIN, 0}};
      for (const auto& client : clients)  // no request is read before the last answer is sent
        polled.push_back({client->socket.get(), short(client->out.empty() ? POLLIN : POLLOUT), 0});
      if (::poll(polled.data(), polled.size(), kTick.count()) < 0)
        std::this_thread::sleep_for(kTick);  // out of memory
      for (size_t i = 0; i < clients.size(); ++i)
        if (polled[i + 1].revents) attend(*clients[i]);
      for (int socket = 0, i = 0; socket >= 0 && i < 16; ++i) {
        socket = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (socket >= 0) lacks = 0, clients.emplace_back(new Client{Descriptor(socket)});
        if (socket >= 0 || errno == EAGAIN) continue;
        if (++lacks == 50) check_lack(errno, "rank 0 accepts no connection");  // after a second
        std::this_thread::sleep_for(kTick);
      }
      drop_clients();
    }
  }

  struct Client {
    Descriptor socket;
    Clock::time_point since = Clock::now();
    int rank = -1;  // negative: a stranger
    std::string nonce = random_nonce();
    std::string out = pack({Word::nonce, "", nonce});  // bytes not yet sent
    std::string in = {}, awaited = {};                 // awaited: key of a get that waits
    bool presence = false, refused = false, dropped = false;
  };

  // Removes clients that have been dropped, and strangers that are late or too many.
  void drop_clients() {
    const auto too_old = Clock::now() - kHandshake;
    auto strangers = std::ranges::count_if(clients, [](const auto& c) { return c->rank < 0; });
    for (const auto& client : clients) {
      if (client->rank >= 0) continue;
      client->dropped |= client->since < too_old || strangers > kStrangers + ranks.world;
      strangers -= client->dropped;
      if (client->dropped) trace::count<"dist.store_strangers">();
    }
    std::erase_if(clients, [](const auto& client) { return client->dropped; });
  }
  void attend(Client& client) {
    std::string why;
    StoreFrame frame;
    bool bad = false;
    client.dropped |= !transfer(client.socket.get(), client.out, client.in, why) ||
                      (client.refused && client.out.empty());
    while (!client.dropped && client.out.empty() && client.awaited.empty() &&
           unpack(client.in, client.rank < 0 ? kMaxHello : kMaxValue, frame, bad))
      client.rank < 0 ? greet(client, frame) : handle(client, frame);
    client.dropped |= bad || client.in.size() > kMaxValue + kMaxHello;
    if (!client.presence || why != kClosed) return;
    put(ranks.attempt + "/gone", gone += cat(gone.empty() ? "" : " ", client.rank));
    if (const std::string result = ranks.attempt + "/rendezvous/result"; !values.contains(result))
      put(result, cat("rank ", client.rank, " of ", ranks.world,
                      " ended before all had arrived; look at its last lines"));
  }
  void greet(Client& client, const StoreFrame& hello) {
    const std::string said = client.nonce + hello.key.substr(0, kNonce) + hello.value;
    client.dropped = hello.word != Word::hello || hello.key.size() != 2 * kNonce;
    if (client.dropped) return;
    std::string why =
        "its token differs; set BELLOWS_TOKEN to one secret on all machines or, if the port "
        "belongs to another run, set dist.store_port";
    if (same_proof(hello.key.substr(kNonce), proof_of(ranks.token, "rank" + said)))
      why = objection(client, hello);
    client.refused = !why.empty();
    if (client.refused) put(ranks.attempt + "/rendezvous/refused", why);
    client.out = client.refused ? pack({Word::refused, "", why})
                                : pack({Word::ok, "", proof_of(ranks.token, "store" + said)});
  }
  // Returns why the process cannot be a rank of this run. If it can, returns "" and makes it one.
  std::string objection(Client& client, const StoreFrame& hello) {
    std::istringstream words(hello.value);
    int rank = -1, world = 0;
    std::string version, attempt, process, purpose;
    words >> version >> rank >> world >> attempt >> process >> purpose;
    if (version != kVersion)
      return "its program has another version; start the same one on all machines";
    if (ranks.token.empty() && !is_of_this_user(client.socket.get()))
      return "it belongs to another user";
    if (attempt != ranks.attempt || world != ranks.world || rank < 0 || rank >= world)
      return cat("it is rank ", rank, " of ", world, " in attempt ", attempt,
                 ", but rank 0 expects ", ranks.world, " ranks in attempt ", ranks.attempt,
                 "; start all with one launcher, and end those of an earlier attempt");
    if (processes.try_emplace(rank, process).first->second != process)
      return cat("another process is rank ", rank, " already; give each rank its own number");
    if (std::ranges::count_if(clients, [&](const auto& other) { return other->rank == rank; }) >=
        kConnectionsOfRank)
      return "it has too many connections; use fewer threads";
    client.rank = rank;
    client.presence = purpose == "presence";
    return "";
  }
  void handle(Client& client, const StoreFrame& request) {
    const auto& [word, key, text] = request;
    const auto found = values.find(key);
    const bool exists = found != values.end();
    std::string value = exists ? found->second : "";
    if (word == Word::bye) return void(client.presence = false);
    if (word == Word::get && !exists) return void(client.awaited = key);
    if (word == Word::remove && values.erase(key)) bytes -= kEntry + key.size() + value.size();
    if (word == Word::add) {
      int64_t before = 0, more = 0, sum = 0;
      std::from_chars(value.data(), value.data() + value.size(), before);
      std::from_chars(text.data(), text.data() + text.size(), more);
      client.dropped = __builtin_add_overflow(before, more, &sum);
      value = std::to_string(sum);
    }
    client.dropped |= word < Word::set || word > Word::remove;
    const bool changes = word == Word::set || word == Word::add;
    client.out = pack({word == Word::find && !exists ? Word::absent : Word::ok, "", value});
    if (changes && !put(key, word == Word::set ? text : value))
      client.out = pack({Word::refused, "", "the store is full"});
  }
  // Returns false if the values would take too much memory.
  bool put(const std::string& key, const std::string& value) {
    const auto found = values.find(key);
    const size_t more = kEntry + key.size() + value.size();
    const size_t less = found == values.end() ? 0 : kEntry + key.size() + found->second.size();
    if (bytes - less + more > kMostBytes) return false;
    bytes += more - less;
    values[key] = value;
    for (const auto& client : clients)
      if (client->awaited == key) client->awaited = "", client->out = pack({Word::ok, "", value});
    return true;
  }

  std::vector<std::unique_ptr<Client>> clients = {};  // connections in order of arrival
  std::map<std::string, std::string> values = {};
  size_t bytes = 0;                           // size of all values
  int lacks = 0;                              // failed attempts to accept, for lack of descriptors
  std::map<int, std::string> processes = {};  // each rank's process, by rank
  std::string gone = "";
};

StoreServer::StoreServer(const Ranks& ranks) try
    : ranks_(ranks), listener_(listen_on(ranks.host, ranks.port)), thread_([this] {
        begin_thread("store");
        Loop loop{ranks_, listener_.get()};
        try {
          loop.run(leaving_);
        } catch (const std::exception& error) {  // no rank can go on, and no other thread knows
          const auto* const known = dynamic_cast<const Error*>(&error);  // else std::bad_alloc
          warn(known ? error.what() : "store: out of memory; free some memory");
          _exit(static_cast<int>(known ? known->exit : Exit::memory));
        }
      }) {
} catch (const std::system_error&) {
  fail(Exit::memory, "store: cannot start its thread; raise the limit (ulimit -u)");
}

StoreServer::~StoreServer() {
  leaving_ = true;
  thread_.join();
}

Ranks StoreServer::seen_from_inside() const {
  Ranks ranks = ranks_;
  if (!is_loopback(ranks.host)) ranks.host = "127.0.0.1";
  ranks.port = port_of(listener_.get());
  return ranks;
}

}  // namespace bellows
