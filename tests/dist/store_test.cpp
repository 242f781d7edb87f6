// The store of real sockets: what ranks see, and what strangers on its port cannot do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <algorithm>
#include <fstream>
#include <future>
#include <thread>
#include "core/base/trace.h"
#include "dist/groups/postmortem.h"
#include "dist/rendezvous/store_server.h"
#include "dist/rendezvous/tcp_store.h"
#include "tests/dist/fake_server.h"
#include "tests/refusal.h"

using namespace bellows;
using namespace std::chrono_literals;
using testing::HasSubstr;

namespace {

constexpr Timeout kLong = 60s;

Ranks of_world(int world) {
  Ranks ranks;
  ranks.world = ranks.local_world = world;
  ranks.token = "secret";
  return ranks;
}
Ranks rank_of(const StoreServer& server, int rank) {
  Ranks ranks = server.seen_from_inside();
  ranks.rank = rank;
  return ranks;
}
std::string hello_of(const StoreServer& server, int rank) {
  const Ranks ranks = rank_of(server, rank);
  return pack(Word::hello, ranks.token,
              cat(kMagic, " ", kVersion, " ", rank, " ", ranks.world, " 7 ", ranks.attempt));
}

// A client that sends what it likes.
class RawClient {
 public:
  explicit RawClient(const StoreServer& server)
      : socket_(connect_to(server.seen_from_inside().host, server.seen_from_inside().port,
                           deadline_after(kLong), why_)) {
    EXPECT_GE(socket_.get(), 0) << why_;
  }
  void send(std::string bytes) {
    while (!bytes.empty() && wait_for_socket(socket_.get(), POLLOUT, deadline_after(kLong)) &&
           send_some(socket_.get(), bytes, why_)) {
    }
  }
  // Returns true once the server has closed the connection.
  bool closed_within(Timeout timeout) {
    std::string received;
    const auto deadline = deadline_after(timeout);
    while (wait_for_socket(socket_.get(), POLLIN, deadline))
      if (!receive_some(socket_.get(), received, why_)) return true;
    return false;
  }
  std::optional<StoreFrame> answer() {
    StoreFrame frame;
    while (wait_for_socket(socket_.get(), POLLIN, deadline_after(kLong))) {
      if (!receive_some(socket_.get(), received_, why_)) return {};
      if (unpack(received_, kMaxFrame, frame) == Unpacked::frame) return frame;
    }
    return {};
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
  a.set(std::string(kMaxKey, 'k'), "1");
  EXPECT_TRUE(b.wait(std::string(kMaxKey, 'k'), 0ms));
}

TEST(StoreTest, CountsFromAllRanks) {
  const StoreServer server(of_world(4));
  std::vector<std::unique_ptr<TcpStore>> stores;
  for (int rank = 0; rank < 4; ++rank)
    stores.push_back(std::make_unique<TcpStore>(rank_of(server, rank), kLong));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 4; ++rank)
    threads.emplace_back([&, rank] {
      for (int i = 0; i < 50; ++i) stores[rank]->add("count", rank);
    });
  threads.clear();
  EXPECT_EQ(stores[3]->get("count", 0ms), "300");
}

TEST(StoreTest, GetWaitsForTheKey) {
  const StoreServer server(of_world(2));
  TcpStore a(rank_of(server, 0), kLong), b(rank_of(server, 1), kLong);
  auto got = std::async(std::launch::async, [&] { return a.get("late", kLong); });
  auto came = std::async(std::launch::async, [&] { return a.wait("counter", kLong); });
  EXPECT_EQ(got.wait_for(20ms), std::future_status::timeout);
  b.set("late", "value");
  EXPECT_EQ(b.add("counter", 3), 3);
  EXPECT_EQ(got.get(), "value");
  EXPECT_TRUE(came.get());
  EXPECT_EQ(b.add("counter", -5), -2);
  EXPECT_EQ(a.get("counter", kLong), "-2");
}

TEST(StoreTest, AGetThatWaitsHoldsUpNoOtherThread) {
  const StoreServer server(of_world(1));
  TcpStore store(rank_of(server, 0), kLong);
  std::vector<std::future<std::string>> waiting;
  for (int i = 0; i < 8; ++i)
    waiting.push_back(std::async(std::launch::async, [&] { return store.get("key", kLong); }));
  EXPECT_EQ(waiting.front().wait_for(20ms), std::future_status::timeout);
  store.set("key", "from the same rank");
  for (auto& one : waiting) EXPECT_EQ(one.get(), "from the same rank");
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

TEST(StoreTest, RefusesKeysAndValuesThatAreTooLong) {
  const StoreServer server(of_world(1));
  TcpStore store(rank_of(server, 0), kLong);
  EXPECT_EQ(refused([&] { store.set(std::string(kMaxKey + 1, 'k'), ""); }).exit, Exit::internal);
  EXPECT_EQ(refused([&] { store.set("key", std::string(kMaxValue + 1, 'v')); }).exit,
            Exit::internal);
  store.set("text", "text");
  EXPECT_EQ(refused([&] { store.add("text", 1); }).exit, Exit::internal);
  store.set("key", "still usable");
}

// ---- the first frame

TEST(StoreTest, RefusesProcessesThatAreNoRankOfTheRun) {
  const StoreServer server(of_world(4));
  const TcpStore present(rank_of(server, 2), kLong);
  const struct {
    std::function<void(Ranks&)> change;
    const char* message;
  } cases[] = {
      {[](Ranks& r) { r.token = "Secret"; },
       "its token differs, so the port belongs to another run"},
      {[](Ranks& r) { r.token = "secret "; }, "its token differs"},
      {[](Ranks& r) { r.token = ""; }, "its token differs"},
      {[](Ranks& r) { r.attempt = "1"; }, "it belongs to attempt 1, rank 0 to attempt 0"},
      {[](Ranks& r) { r.world = 8; }, "it is rank 1 of 8, but rank 0 expects 4 ranks"},
      {[](Ranks& r) { r.rank = 4; }, "it is rank 4 of 4, but rank 0 expects 4 ranks"},
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
  const trace::Counter& strangers = trace::counter("dist.store_strangers");
  const int64_t before = strangers.value();
  const StoreServer server(of_world(1));
  const std::string hello = hello_of(server, 0);
  const std::vector<std::string> beginnings = {
      "",
      "GET / HTTP/1.1\r\n\r\n",
      "\x16\x03\x01\x02\x01\x01\xfc\x03\x03",
      std::string(4, '\xff'),
      std::string(4, '\0'),
      pack(Word::set, "key", "value"),
      pack(Word::hello, "secret", ""),
      pack(Word::hello, "secret", "bellows-stone 1 0 1 7 0"),
      pack(Word::hello, "", "bellows-store 1 0 1 7 0"),
      pack(Word::hello, "secret", "bellows-store one 0 1 7 0"),
      pack(Word::hello, "secret", "bellows-store 1 0 1"),
      pack(Word::hello, std::string(2000, 's'), "bellows-store 1 0 1 7 0"),
      hello.substr(0, hello.size() - 1),
  };
  std::vector<std::unique_ptr<RawClient>> clients;
  for (const std::string& bytes : beginnings) {
    clients.push_back(std::make_unique<RawClient>(server));
    clients.back()->send(bytes);
  }
  for (size_t i = 0; i < clients.size(); ++i) EXPECT_TRUE(clients[i]->closed_within(30s)) << i;
  EXPECT_EQ(strangers.value() - before, static_cast<int64_t>(beginnings.size()));
  TcpStore store(rank_of(server, 0), kLong);
  EXPECT_FALSE(store.wait("key", 0ms));
}

TEST(StoreTest, OfACrowdOfStrangersTheOldestAreDropped) {
  const StoreServer server(of_world(1));
  std::vector<std::unique_ptr<RawClient>> crowd;
  for (int i = 0; i < 200; ++i) crowd.push_back(std::make_unique<RawClient>(server));
  EXPECT_TRUE(crowd.front()->closed_within(1s));  // before its time for the hello is over
  crowd.back()->send(hello_of(server, 0));
  EXPECT_EQ(crowd.back()->answer().value().word, Word::ok);
}

TEST(StoreTest, FramesMayArriveByteByByte) {
  const StoreServer server(of_world(1));
  RawClient client(server);
  for (const std::string& frame : {hello_of(server, 0), pack(Word::set, "0/key", "value")}) {
    for (const char byte : frame) client.send({byte});
    ASSERT_EQ(client.answer().value().word, Word::ok);
  }
  client.send(pack(Word::find, "0/key", ""));
  EXPECT_EQ(client.answer().value().value, "value");
}

// ---- cuts

TEST(StoreTest, AFrameCutAnywhereChangesNothing) {
  const StoreServer server(of_world(2));
  TcpStore store(rank_of(server, 1), kLong);
  const std::string hello = hello_of(server, 0), frame = pack(Word::set, "0/key", "value");
  for (size_t size = 0; size < hello.size() + frame.size(); ++size)
    RawClient(server).send((hello + frame).substr(0, size));
  RawClient(server).send(hello + pack(Word::set, "0/last", ""));
  EXPECT_EQ(store.get("last", kLong), "");
  EXPECT_FALSE(store.wait("key", 0ms));
}

TEST(StoreTest, AnAnswerCutAnywhereIsAnErrorOfItsKey) {
  const std::string answer = pack(Word::ok, "", "value");
  for (size_t size = 0; size < answer.size(); ++size) {
    const FakeServer server({kYes, kYes, answer.substr(0, size)});
    TcpStore store(server.ranks(), kLong);
    const Refusal refusal = refused([&] { store.get("key", kLong); });
    EXPECT_EQ(refusal.exit, Exit::distributed) << size;
    EXPECT_THAT(refusal.message, HasSubstr("is gone (it closed the connection)"));
    EXPECT_THAT(refusal.message, HasSubstr("'key'"));
  }
  const FakeServer server({kYes, kYes, answer});
  EXPECT_EQ(TcpStore(server.ranks(), kLong).get("key", kLong), "value");
}

TEST(StoreTest, AStoreThatHangsIsAnErrorAfterTheTimeout) {
  const std::function<void(Store&)> calls[] = {[](Store& store) { store.set("key", "value"); },
                                               [](Store& store) { store.wait("key", 0ms); }};
  for (const std::string& bytes : {std::string(), kYes.substr(0, 5)})
    for (const auto& call : calls) {
      const FakeServer server({kYes, kYes, bytes}, true);
      TcpStore store(server.ranks(), 2s);
      const Refusal refusal = refused([&] { call(store); });
      EXPECT_EQ(refusal.exit, Exit::distributed);
      EXPECT_THAT(refusal.message, HasSubstr("did not answer for 'key' within 2 s"));
    }
}

TEST(StoreTest, AllCallsTogetherEndWithinTheirLimitIfTheStoreHangs) {
  const FakeServer server({kYes, kYes}, true);
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

TEST(StoreTest, TheSearchForACauseEndsInTimeIfTheStoreHangs) {
  const FakeServer server({kYes, kYes}, true);
  const GroupContext group{.ranks = server.ranks(),
                           .store = std::make_shared<TcpStore>(server.ranks(), kLong),
                           .options = {}};
  Postmortem postmortem(group, "end/");
  const auto begin = Clock::now();
  bool closed = false;
  Collective collective;
  collective.sequence = 7;
  EXPECT_THAT(postmortem.why(collective, 7, true, "", [&] { closed = true; }),
              HasSubstr("rank 0 left or is stuck: its store does not answer"));
  EXPECT_TRUE(closed);
  EXPECT_LT(Clock::now() - begin, 10s);
}

TEST(StoreTest, AClientThatReadsNothingIsNotReadEither) {
  const StoreServer server(of_world(2));
  RawClient client(server);
  client.send(hello_of(server, 0));
  EXPECT_EQ(client.answer().value().word, Word::ok);
  const std::string set = pack(Word::set, "0/large", std::string(kMaxValue, 'v'));
  std::string requests = set, why;
  for (int i = 0; i < 40; ++i) requests += pack(Word::find, "0/large", "");
  size_t sent = 0;
  for (; sent < 100 * kMaxValue; requests += set) {
    const size_t before = requests.size();
    if (!wait_for_socket(client.get(), POLLOUT, deadline_after(300ms))) break;
    ASSERT_TRUE(send_some(client.get(), requests, why)) << why;
    sent += before - requests.size();
  }
  EXPECT_LT(sent, 50 * kMaxValue);  // what the system buffers
}

// ---- hostile clients beside a real exchange

namespace {

using Hostile = std::function<void(const StoreServer&)>;
const std::vector<std::pair<const char*, Hostile>> kHostiles = {
    {"garbage",
     [](const StoreServer& s) {
       static thread_local uint64_t state = 88172645463325252u;
       std::string bytes(1 << 12, '\0');
       for (char& byte : bytes) {
         state ^= state << 13, state ^= state >> 7, state ^= state << 17;
         byte = static_cast<char>(state);
       }
       RawClient(s).send(bytes);
     }},
    {"connects and leaves", [](const StoreServer& s) { RawClient client(s); }},
    {"resets",
     [](const StoreServer& s) {
       RawClient client(s);
       const linger now = {1, 0};
       setsockopt(client.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
     }},
    {"half of a hello",
     [](const StoreServer& s) {
       RawClient client(s);
       client.send(hello_of(s, 1).substr(0, 20));
       ::shutdown(client.get(), SHUT_WR);
       client.closed_within(1s);
     }},
    {"wrong token",
     [](const StoreServer& s) {
       RawClient client(s);
       client.send(pack(Word::hello, "guess", "bellows-store 1 3 4 7 0"));
       EXPECT_TRUE(client.closed_within(30s));
     }},
    {"slow hello",
     [](const StoreServer& s) {
       RawClient client(s);
       for (const char byte : hello_of(s, 4)) {
         client.send({byte});
         std::this_thread::sleep_for(1ms);
       }
     }},
    {"says nothing", [](const StoreServer& s) { RawClient(s).closed_within(100ms); }},
    {"a crowd that says nothing",
     [](const StoreServer& s) {
       std::vector<std::unique_ptr<RawClient>> crowd;
       for (int i = 0; i < 100; ++i) crowd.push_back(std::make_unique<RawClient>(s));
       crowd.back()->closed_within(20ms);
     }},
    {"never reads",  // the last rank, gone wrong
     [](const StoreServer& s) {
       RawClient client(s);
       client.send(hello_of(s, 4));
       EXPECT_EQ(client.answer().value().word, Word::ok);
       std::string requests = pack(Word::set, "0/huge", std::string(kMaxValue, 'h')), why;
       for (int i = 0; i < 40; ++i) requests += pack(Word::find, "0/huge", "");
       const auto deadline = deadline_after(300ms);
       while (!requests.empty() && wait_for_socket(client.get(), POLLOUT, deadline) &&
              send_some(client.get(), requests, why)) {
       }
     }},
    {"waits in vain",
     [](const StoreServer& s) {
       RawClient client(s);
       client.send(hello_of(s, 4) + pack(Word::get, "0/never", ""));
       client.closed_within(10ms);
     }},
    {"a frame that is too large",
     [](const StoreServer& s) {
       RawClient client(s);
       client.send(hello_of(s, 4) + "\xff\xff\xff\x7f");
       EXPECT_TRUE(client.closed_within(30s));
     }},
};

}  // namespace

TEST(StoreTest, HostileClientsDoNotDisturbAnExchange) {
  for (const auto& [name, attack] : kHostiles) {
    const StoreServer server(of_world(5));
    std::atomic<bool> over = false;
    std::vector<std::jthread> hostiles;
    for (int i = 0; i < 3; ++i)
      hostiles.emplace_back([&, attack = attack] {
        while (!over) {
          attack(server);
          std::this_thread::sleep_for(2ms);  // the processor is not what they attack
        }
      });
    std::vector<std::future<Timeout>> ranks;
    for (int rank = 0; rank < 4; ++rank)
      ranks.push_back(std::async(std::launch::async, [&, rank] {
        TcpStore store(rank_of(server, rank), kLong);
        std::vector<Clock::duration> durations;
        for (int round = 0; round < 10; ++round) {
          const auto begin = Clock::now();
          store.set(cat(round, "/", rank), cat(round * rank));
          for (int other = 0; other < 4; ++other)
            EXPECT_EQ(store.get(cat(round, "/", other), kLong), cat(round * other));
          durations.push_back(Clock::now() - begin);
        }
        std::ranges::sort(durations);
        return std::chrono::ceil<Timeout>(durations[durations.size() / 2]);
      }));
    for (auto& median : ranks) EXPECT_LT(median.get(), 5s) << name;
    over = true;
  }
}

// ---- the end

TEST(StoreTest, AClosedStoreIsAnErrorAtOnce) {
  auto server = std::make_unique<StoreServer>(of_world(2));
  TcpStore store(rank_of(*server, 1), kLong);
  store.set("key", "");
  auto waiting =
      std::async(std::launch::async, [&] { return refused([&] { store.get("never", kLong); }); });
  server.reset();  // after a second without requests
  const auto begin = Clock::now();
  const Refusal of_get = waiting.get(), of_set = refused([&] { store.set("key", ""); });
  EXPECT_LT(Clock::now() - begin, 10s);
  EXPECT_EQ(of_get.exit, Exit::distributed);
  EXPECT_THAT(of_get.message, HasSubstr("is gone"));
  EXPECT_THAT(of_get.message, HasSubstr("'never'"));
  EXPECT_EQ(of_set.exit, Exit::distributed);
  EXPECT_THAT(of_set.message, HasSubstr("is gone"));
}

TEST(StoreTest, RankZeroMayEndFirst) {
  auto server = std::make_unique<StoreServer>(of_world(2));
  auto store = std::make_unique<TcpStore>(rank_of(*server, 1), kLong);
  auto ended = std::async(std::launch::async, [&] { server.reset(); });
  for (int i = 0; i < 30; ++i) {
    store->set(cat(i), "");
    EXPECT_EQ(ended.wait_for(10ms), std::future_status::timeout);
  }
  store.reset();
  const auto begin = Clock::now();
  ended.get();
  EXPECT_LT(Clock::now() - begin, 900ms);  // it does not wait for a quiet second
}

TEST(StoreTest, ItsThreadTakesNoSignal) {
  const StoreServer server(of_world(1));
  const TcpStore store(rank_of(server, 0), kLong);
  int found = 0;
  for (const Path& task : paths_in("/proc/self/task", Exit::internal)) {
    std::string name, line;
    std::getline(std::ifstream(task / "comm"), name);
    if (name != "store") continue;
    ++found;
    std::ifstream status(task / "status");
    while (std::getline(status, line) && !line.starts_with("SigBlk:")) {
    }
    const uint64_t blocked = std::stoull(line.substr(7), nullptr, 16);
    for (const int signal : {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGPIPE})
      EXPECT_TRUE(blocked >> (signal - 1) & 1) << signal;
  }
  EXPECT_EQ(found, 1);
}
