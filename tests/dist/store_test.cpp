// The store of real sockets: what ranks see, and what strangers on its port cannot do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <future>
#include <random>
#include <thread>
#include "dist/rendezvous/store_server.h"
#include "dist/rendezvous/tcp_store.h"
#include "tests/dist/fake_server.h"
#include "tests/moved.h"
#include "tests/refusal.h"

using namespace bellows;
using namespace std::chrono_literals;
using testing::HasSubstr;

namespace {

constexpr Timeout kLong = 60s;

Ranks of_world(int world) {
  Ranks ranks = place_of_rank(0, world);
  ranks.token = "secret";
  return ranks;
}
Ranks rank_of(const StoreServer& server, int rank) {
  Ranks ranks = server.seen_from_inside();
  ranks.rank = rank;
  return ranks;
}
// A client that sends what it likes.
class RawClient {
 public:
  explicit RawClient(const StoreServer& server)
      : socket_(
            connect_to("127.0.0.1", server.seen_from_inside().port, deadline_after(kLong), why_)) {
    EXPECT_GE(socket_.get(), 0) << why_;
  }
  void send(std::string bytes) {
    while (!bytes.empty() && wait_for_socket(socket_.get(), POLLOUT, deadline_after(kLong)) &&
           transfer(socket_.get(), bytes, received_, why_)) {
    }
  }
  // Returns true once the server has closed the connection.
  bool closed_within(Timeout timeout) {
    const auto deadline = deadline_after(timeout);
    std::string none;
    while (wait_for_socket(socket_.get(), POLLIN, deadline))
      if (!transfer(socket_.get(), none, received_, why_)) return true;
    return false;
  }
  std::optional<StoreFrame> answer() {
    StoreFrame frame;
    std::string none;
    for (bool bad = false; !unpack(received_, kMaxValue, frame, bad);)
      if (!wait_for_socket(socket_.get(), POLLIN, deadline_after(kLong)) ||
          !transfer(socket_.get(), none, received_, why_))
        return {};
    return frame;
  }
  // The hello of a rank of `world`, after the server's nonce has come.
  std::string hello(int rank, int world, const std::string& token = "secret") {
    StoreFrame frame{Word::hello, std::string(kNonce, 'c'),
                     cat(kVersion, " ", rank, " ", world, " 0 raw request")};
    const std::string nonce = answer().value_or(StoreFrame{}).value;
    frame.key += proof_of(token, "rank" + nonce + frame.key + frame.value);
    return pack(frame);
  }
  void enter(int rank, int world) {
    send(hello(rank, world));
    EXPECT_EQ(answer().value_or(StoreFrame{}).word, Word::ok);
  }
  int get() const { return socket_.get(); }

 private:
  std::string why_, received_;
  Descriptor socket_;
};

}  // namespace

TEST(StoreTest, SharesValuesBetweenRanks) {
  const StoreServer server(of_world(2));
  TcpStore a(rank_of(server, 0), kLong), b(rank_of(server, 1), kLong);
  const std::string binary("\0\xff\n", 3), large(kMaxValue, 'x');
  a.set("key", binary);
  a.set("large", large);
  a.set("empty", "");
  EXPECT_EQ(b.get("key", kLong), binary);
  EXPECT_EQ(b.get("large", kLong), large);
  EXPECT_EQ(b.get("empty", 0ms), "");
  b.set("key", "new");
  EXPECT_EQ(a.get("key", kLong), "new");
  b.remove("key");
  EXPECT_FALSE(a.wait("key", 0ms));
  EXPECT_EQ(refused([&] { a.set(std::string(kMaxKey + 1, 'k'), ""); }).exit, Exit::internal);
  EXPECT_EQ(refused([&] { a.set("key", large + "x"); }).exit, Exit::internal);
  a.set(std::string(kMaxKey, 'k'), "1");
  EXPECT_TRUE(b.wait(std::string(kMaxKey, 'k'), 0ms));
}

// Requests that wait hold up no other thread of their rank.
TEST(StoreTest, GetWaitsForTheKey) {
  const StoreServer server(of_world(2));
  TcpStore a(rank_of(server, 0), kLong), b(rank_of(server, 1), kLong);
  std::vector<std::future<std::string>> waiting;
  for (int i = 0; i < 8; ++i)
    waiting.push_back(
        std::async(std::launch::async, [&, i] { return a.get(i % 2 ? "own" : "late", kLong); }));
  EXPECT_EQ(waiting.front().wait_for(20ms), std::future_status::timeout);
  a.set("own", "value");
  EXPECT_EQ(b.add("late", 3), 3);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(waiting[i].get(), i % 2 ? "value" : "3");
  EXPECT_EQ(b.add("late", -5), -2);
  EXPECT_EQ(a.get("late", kLong), "-2");
}

TEST(StoreTest, TimesOutAndStaysUsable) {
  const StoreServer server(of_world(1));
  TcpStore store(rank_of(server, 0), kLong);
  const auto begin = Clock::now();
  const Refusal refusal = refused([&] { store.get("gloo/7", 300ms); });
  EXPECT_GE(Clock::now() - begin, 300ms);
  EXPECT_EQ(refusal.exit, Exit::distributed);
  EXPECT_EQ(refusal.message,
            "store: no rank set 'gloo/7' within 0.3 s; a rank is late or has ended");
  EXPECT_FALSE(store.wait("gloo/7", 10ms));
  store.set("gloo/7", "late");
  EXPECT_EQ(store.get("gloo/7", Timeout::max()), "late");  // no overflow
}

// A rank cannot make rank 0 keep more than that, nor wrap a counter around.
TEST(StoreTest, RefusesMoreThan64MiB) {
  const StoreServer server(of_world(1));
  TcpStore store(rank_of(server, 0), kLong);
  const std::string value(kMaxValue, 'v');
  Refusal refusal;
  int kept = 0;
  for (; kept < 100; ++kept) {
    refusal = refused([&] { store.set(cat("key ", kept), value); });
    if (refusal.exit == Exit::distributed) break;
  }
  EXPECT_EQ(kept, 63);
  EXPECT_EQ(refusal.message, "store: 'key 63': the store is full");
  store.set("key 0", "");  // makes room
  store.set("key 63", value);
  store.remove("key 63");
  store.set("key 64", value);
  EXPECT_EQ(store.get("key 64", 0ms), value);
}

// ---- the first frame

TEST(StoreTest, RefusesProcessesThatAreNoRankOfTheRun) {
  const StoreServer server(of_world(4));
  const TcpStore present(rank_of(server, 2), kLong);
  const std::pair<std::function<void(Ranks&)>, const char*> cases[] = {
      {[](Ranks& r) { r.token = "Secret"; }, "its token differs; set BELLOWS_TOKEN to one secret"},
      {[](Ranks& r) { r.token = "secret "; }, "its token differs"},
      {[](Ranks& r) { r.token = ""; }, "its token differs"},
      {[](Ranks& r) { r.attempt = "1"; },
       "it is rank 1 of 4 in attempt 1, but rank 0 expects 4 ranks in attempt 0"},
      {[](Ranks& r) { r.world = 8; }, "it is rank 1 of 8 in attempt 0, but rank 0 expects 4 ranks"},
      {[](Ranks& r) { r.rank = 4; }, "it is rank 4 of 4 in attempt 0, but rank 0 expects 4 ranks"},
      {[](Ranks& r) { r.rank = -1; }, "it is rank -1 of 4"},
      {[](Ranks& r) { r.rank = 2; }, "another process is rank 2 already"},
  };
  for (const auto& [change, message] : cases) {
    Ranks ranks = rank_of(server, 1);
    change(ranks);
    const Refusal refusal = refused([&, &r = ranks] { TcpStore(r, kLong); });
    EXPECT_EQ(refusal.exit, Exit::distributed);
    EXPECT_THAT(refusal.message, HasSubstr(message));
    EXPECT_THAT(refusal.message, HasSubstr(cat("refused rank ", ranks.rank)));
  }
  TcpStore welcome(rank_of(server, 1), kLong);
  welcome.set("key", "");
}

TEST(StoreTest, DropsStrangersSoon) {
  const Moved strangers("dist.store_strangers");
  const StoreServer server(of_world(1));
  const std::string nonce(kNonce, 'c'), proof(32, 'p');
  std::vector<std::unique_ptr<RawClient>> clients;
  const auto client = [&]() -> RawClient& {
    return *clients.emplace_back(std::make_unique<RawClient>(server));
  };
  for (const std::string& bytes :
       {std::string(), std::string("GET / HTTP/1.1\r\n\r\n"),
        std::string("\x16\x03\x01\x02\x01\x01\xfc\x03\x03"), std::string(7, '\xff'),
        std::string(8, '\0'), pack({Word::set, "0/key", "value"}),
        pack({Word::hello, "", "bellows-store-2 0 1 0 raw request"}),
        pack({Word::hello, nonce + proof, std::string(2000, 's')}),
        pack({Word::hello, nonce + proof, "bellows-store-2 0 1 0 raw r"})})
    client().send(bytes);
  for (const char* token : {"guess", ""}) {
    RawClient& guesses = client();
    guesses.send(guesses.hello(0, 1, token));
  }
  RawClient& stops = client();
  const std::string hello = stops.hello(0, 1);
  stops.send(hello.substr(0, hello.size() - 1));
  for (size_t i = 0; i < clients.size(); ++i) EXPECT_TRUE(clients[i]->closed_within(30s)) << i;
  EXPECT_EQ(strangers, std::ssize(clients));
  TcpStore store(rank_of(server, 0), kLong);
  EXPECT_FALSE(store.wait("key", 0ms));
}

// All that the store says to a stranger, and to one who repeats what a rank has said.
TEST(StoreTest, ProvesNothingToAStranger) {
  const StoreServer server(of_world(2));
  RawClient rank(server), stranger(server);
  const std::string hello = rank.hello(1, 2), first = stranger.answer().value().value;
  EXPECT_EQ(first.size(), kNonce);
  rank.send(hello);
  EXPECT_EQ(rank.answer().value().word, Word::ok);
  stranger.send(hello);
  const StoreFrame second = stranger.answer().value();
  EXPECT_EQ(second.word, Word::refused);
  EXPECT_THAT(second.value, HasSubstr("its token differs"));
  EXPECT_TRUE(stranger.closed_within(30s));
}

// One who listens first on the port receives no token, and cannot be rank 0.
TEST(StoreTest, AStrangerOnThePortIsNotRankZero) {
  const FakeServer stranger(1, {}, true);  // proves the empty token
  Ranks ranks = stranger.ranks();
  ranks.token = "secret";
  const Refusal refusal = refused([&] { TcpStore(ranks, 300ms); });
  EXPECT_EQ(refusal.exit, Exit::distributed);
  EXPECT_THAT(refusal.message,
              HasSubstr("did not answer rank 1 within 0.3 s (another program, or one "
                        "with another token, listens there)"));
  EXPECT_THAT(stranger.heard(), testing::Not(HasSubstr("secret")));
  EXPECT_THAT(stranger.heard(), HasSubstr("bellows-store-2 1 2 0 "));
}

// Without a token, on a machine with several users.
TEST(StoreTest, AnotherUserIsRefusedWithoutAToken) {
  if (geteuid() != 0) GTEST_SKIP() << "takes root, to become another user";
  Ranks ranks = of_world(2);
  ranks.token = "";
  const StoreServer server(ranks);
  const pid_t other = fork();
  if (other == 0) {
    if (setuid(65534) != 0) _exit(1);
    const Refusal refusal = refused([&] { TcpStore(rank_of(server, 1), kLong); });
    _exit(refusal.message.find("it belongs to another user") == std::string::npos ? 2 : 0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(other, &status, 0), other);
  EXPECT_EQ(status, 0);
  TcpStore welcome(rank_of(server, 1), kLong);
  welcome.set("key", "");
}

// The server greets the last client after all have arrived. By then, only 64 strangers more than
// there are ranks may be left.
TEST(StoreTest, OfACrowdOfStrangersTheOldestAreDropped) {
  const Moved strangers("dist.store_strangers");
  const StoreServer server(of_world(1));
  std::vector<std::unique_ptr<RawClient>> crowd;
  for (int i = 0; i < 200; ++i) crowd.push_back(std::make_unique<RawClient>(server));
  crowd.back()->enter(0, 1);
  EXPECT_GE(strangers, 200 - 1 - 64);
  EXPECT_TRUE(crowd.front()->closed_within(kLong));
}

// ---- cuts

TEST(StoreTest, AFrameCutAnywhereChangesNothing) {
  const StoreServer server(of_world(2));
  TcpStore store(rank_of(server, 1), kLong);
  const std::string frame = pack({Word::set, "0/key", "value"});
  const size_t hello = RawClient(server).hello(0, 2).size();
  for (size_t size = 0; size < hello + frame.size(); ++size) {
    RawClient client(server);
    client.send((client.hello(0, 2) + frame).substr(0, size));
  }
  RawClient last(server);
  last.send(last.hello(0, 2) + pack({Word::set, "0/last"}));
  EXPECT_EQ(store.get("last", kLong), "");
  EXPECT_FALSE(store.wait("key", 0ms));
}

TEST(StoreTest, AnAnswerCutAnywhereIsAnErrorOfItsKey) {
  const std::string answer = pack({Word::ok, "", "value"});
  for (size_t size = 0; size < answer.size(); ++size) {
    const FakeServer server(2, {answer.substr(0, size)});
    TcpStore store(server.ranks(), kLong);
    const Refusal refusal = refused([&] { store.get("key", kLong); });
    EXPECT_EQ(refusal.exit, Exit::distributed) << size;
    EXPECT_THAT(refusal.message, HasSubstr("is gone (it closed the connection)"));
    EXPECT_THAT(refusal.message, HasSubstr("'key'"));
  }
  const FakeServer server(2, {answer});
  EXPECT_EQ(TcpStore(server.ranks(), kLong).get("key", kLong), "value");
}

TEST(StoreTest, AllCallsTogetherEndWithinTheirLimitIfTheStoreHangs) {
  const FakeServer server(2, {}, true);
  TcpStore store(server.ranks(), kLong);
  const auto begin = Clock::now();
  store.end_within(300ms);
  EXPECT_THAT(refused([&] { store.set("key", ""); }).message,
              HasSubstr("did not answer for 'key'"));
  EXPECT_GE(Clock::now() - begin, 300ms);
  EXPECT_EQ(refused([&] { store.add("key", 1); }).exit, Exit::distributed);
  EXPECT_EQ(refused([&] { store.wait("key", 0ms); }).exit, Exit::distributed);
  EXPECT_FALSE(store.wait("key", kLong));
  EXPECT_LT(Clock::now() - begin, 10s);
}

// Sends requests with large answers and reads none. Returns the number of bytes that the server and
// the system have taken when both stop.
static size_t flood(RawClient& client) {
  const std::string set = pack({Word::set, "0/large", std::string(kMaxValue, 'v')});
  std::string requests = set, none, why;
  for (int i = 0; i < 40; ++i) requests += pack({Word::find, "0/large"});
  size_t sent = 0;
  for (; sent < 100 * kMaxValue; requests += set) {
    const size_t before = requests.size();
    if (!wait_for_socket(client.get(), POLLOUT, deadline_after(300ms))) break;
    if (!transfer(client.get(), requests, none, why)) break;
    sent += before - requests.size();
  }
  return sent;
}

TEST(StoreTest, AClientThatReadsNothingIsNotReadEither) {
  const StoreServer server(of_world(2));
  RawClient client(server);
  client.enter(0, 2);
  const size_t sent = flood(client);
  EXPECT_GT(sent, kMaxValue);       // a value and the first requests
  EXPECT_LT(sent, 50 * kMaxValue);  // what the system buffers
}

// ---- hostile clients beside a real exchange

namespace {

using Hostile = void (*)(const StoreServer&);
const Hostile kHostiles[] = {
    [](const StoreServer& s) {  // sends garbage
      static std::mt19937 random(7);
      std::string bytes(1 << 12, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      RawClient(s).send(bytes);
    },
    [](const StoreServer& s) {  // resets its connection
      RawClient client(s);
      const linger now = {1, 0};
      setsockopt(client.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    },
    [](const StoreServer& s) {  // says hello slowly
      RawClient client(s);
      for (const char byte : client.hello(4, 5)) {
        client.send({byte});
        std::this_thread::sleep_for(1ms);
      }
    },
    [](const StoreServer& s) {  // never reads: the last rank, gone wrong
      RawClient client(s);
      client.send(client.hello(4, 5));  // refused while the last 16 are not yet read to their end
      flood(client);
    },
};

}  // namespace

TEST(StoreTest, HostileClientsDoNotDisturbAnExchange) {
  const StoreServer server(of_world(5));
  std::atomic<bool> over = false;
  std::vector<std::jthread> hostiles;
  for (const Hostile attack : kHostiles)
    hostiles.emplace_back([&, attack] {
      while (!over) {
        attack(server);
        std::this_thread::sleep_for(2ms);  // the processor is not what they attack
      }
    });
  std::vector<std::future<void>> ranks;
  for (int rank = 0; rank < 4; ++rank)
    ranks.push_back(std::async(std::launch::async, [&, rank] {
      TcpStore store(rank_of(server, rank), kLong);
      for (int round = 0; round < 30; ++round) {
        store.set(cat(round, "/", rank), cat(round * rank));
        for (int other = 0; other < 4; ++other)
          EXPECT_EQ(store.get(cat(round, "/", other), kLong), cat(round * other));
      }
    }));
  for (const auto& rank : ranks) rank.wait();
  over = true;
  for (auto& rank : ranks) rank.get();
}

// ---- the end

TEST(StoreTest, RankZeroMayEndFirst) {
  auto server = std::make_unique<StoreServer>(of_world(2));
  auto store = std::make_unique<TcpStore>(rank_of(*server, 1), kLong);
  auto ended = std::async(std::launch::async, [&] { server.reset(); });
  for (int i = 0; i < 5; ++i) {
    store->set(cat(i), "");
    EXPECT_EQ(ended.wait_for(10ms), std::future_status::timeout);
  }
  store.reset();
  const auto begin = Clock::now();
  ended.get();
  EXPECT_LT(Clock::now() - begin, 1500ms);  // it does not wait for its two seconds
}

// ---- presence

TEST(StoreTest, ARankThatSaysGoodbyeIsNotGone) {
  const StoreServer server(of_world(3));
  TcpStore store(rank_of(server, 0), kLong);
  { const TcpStore leaving(rank_of(server, 1), kLong); }
  {
    TcpStore failing(rank_of(server, 2), kLong);
    failing.end_within(1s);
  }
  EXPECT_EQ(store.get("gone", kLong), "2");
}

// As a firewall does it to a connection that was idle for too long.
TEST(StoreTest, AResetPresenceIsNoDeath) {
  const StoreServer server(of_world(2));
  TcpStore store(rank_of(server, 0), kLong);
  const Descriptor relay = listen_on("127.0.0.1", 0);
  Ranks through = rank_of(server, 1);
  through.port = port_of(relay.get());
  std::atomic<bool> met = false;
  std::jthread relaying([&] {  // the first connection: the presence
    std::string why;
    wait_for_socket(relay.get(), POLLIN, deadline_after(kLong));
    const Descriptor rank(accept4(relay.get(), nullptr, nullptr, SOCK_NONBLOCK));
    const Descriptor its_store(
        connect_to("127.0.0.1", rank_of(server, 0).port, deadline_after(kLong), why));
    std::string up, down;
    for (const auto end = deadline_after(kLong); !met && Clock::now() < end;)
      for (const auto& [from, to] :
           {std::pair(rank.get(), its_store.get()), std::pair(its_store.get(), rank.get())}) {
        std::string bytes, none;
        if (wait_for_socket(from, POLLIN, deadline_after(1ms))) transfer(from, none, bytes, why);
        while (!bytes.empty()) transfer(to, bytes, none, why);
      }
    const linger reset = {1, 0};
    for (const int socket : {rank.get(), its_store.get()})
      setsockopt(socket, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  });
  const TcpStore rank(through, kLong);
  met = true;
  relaying.join();
  EXPECT_FALSE(store.wait("gone", 200ms));
}
