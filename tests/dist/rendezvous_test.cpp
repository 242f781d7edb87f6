// Ranks from the variables of each launcher, and how they meet. tests/fault kills and stops ranks
// that are processes.
#include "dist/rendezvous/rendezvous.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <future>
#include <map>
#include <sstream>
#include <thread>
#include "dist/rendezvous/sockets.h"
#include "tests/dist/fake_server.h"
#include "tests/free_port.h"
#include "tests/refusal.h"

using namespace bellows;
using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

using Variables = std::map<std::string, std::string>;

static Ranks read(const Variables& variables, const DistOptions& options = {}) {
  return ranks_from(
      [&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      options);
}

// "rank/world local_rank/local_world host:port attempt token launcher"
static std::string text_of(const Ranks& r) {
  return cat(r.rank, "/", r.world, " ", r.local_rank, "/", r.local_world, " ", r.host, ":", r.port,
             " ", r.attempt, " '", r.token, "' ", r.launcher);
}

static Variables with(Variables base, const Variables& changes) {
  for (const auto& [name, value] : changes) base[name] = value;
  return base;
}
// changes: "NAME=value NAME=value"; an empty value unsets a variable.
static Variables with(Variables base, const std::string& changes) {
  std::istringstream words(changes);
  for (std::string word; std::getline(words, word, ' ');)
    base[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  return base;
}

static const Variables kLaunch =
    with({},
         "BELLOWS_RANK=2 BELLOWS_WORLD=4 BELLOWS_LOCAL_RANK=0 BELLOWS_LOCAL_WORLD=2 "
         "BELLOWS_HOST=big1 BELLOWS_PORT=4000 BELLOWS_ATTEMPT=3 BELLOWS_TOKEN=t");
static const Variables kTorchrun =
    with({},
         "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 MASTER_ADDR=10.0.0.1 "
         "MASTER_PORT=29500 TORCHELASTIC_RESTART_COUNT=2 TORCHELASTIC_RUN_ID=run7 "
         "TORCHELASTIC_USE_AGENT_STORE=True BELLOWS_TOKEN=t");
// A process per machine that is started manually needs no local numbers.
static const Variables kByHand =
    with({}, "RANK=1 WORLD_SIZE=2 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 BELLOWS_TOKEN=t");
static const Variables kOpenMpi =
    with({},
         "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 "
         "OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_MCA_ess_base_jobid=77");
static const Variables kSlurm = with(
    {},
    "SLURM_PROCID=6 SLURM_NTASKS=7 SLURM_LOCALID=0 SLURM_NODEID=3 SLURM_TASKS_PER_NODE=2(x3),1 "
    "SLURM_JOB_NODELIST=node[003-010,12],x1 SLURM_JOB_ID=123456 BELLOWS_TOKEN=t");

TEST(RanksTest, AreReadFromEachLauncher) {
  const std::pair<Variables, std::string> cases[] = {
      {{}, "0/1 0/1 127.0.0.1:0 0 '' "},
      {with({}, "WORLD_SIZE=4 SLURM_NTASKS=4"), "0/1 0/1 127.0.0.1:0 0 '' "},
      {kLaunch, "2/4 0/2 big1:4000 3 't' trainer launch"},
      {with(kLaunch, kTorchrun), "2/4 0/2 big1:4000 3 't' trainer launch"},
      {with(kLaunch, "BELLOWS_ATTEMPT="), "2/4 0/2 big1:4000 0 't' trainer launch"},
      {kTorchrun, "5/8 1/4 10.0.0.1:29503 2 't' torchrun"},
      {with(kTorchrun, kSlurm), "5/8 1/4 10.0.0.1:29503 2 't' torchrun"},
      {with(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE=False"),
       "5/8 1/4 10.0.0.1:29500 2 't' torchrun"},
      {with({}, "RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1"),
       "0/1 0/1 127.0.0.1:0 0 '' torchrun"},
      {with({}, "RANK=0 WORLD_SIZE=1"), "0/1 0/1 127.0.0.1:0 0 '' torchrun"},
      {kByHand, "1/2 0/1 10.0.0.1:29500 0 't' torchrun"},
      {with(kByHand, "MASTER_ADDR=localhost"), "1/2 1/2 localhost:29500 0 't' torchrun"},
      {with(kOpenMpi, "MASTER_ADDR=head MASTER_PORT=5000 BELLOWS_TOKEN=own"),
       "1/2 1/2 head:5000 0 'own' mpirun"},
      {with(kOpenMpi, "MASTER_PORT=5000 BELLOWS_TOKEN=own"),
       "1/2 1/2 127.0.0.1:5000 0 'own' mpirun"},
      {with(kOpenMpi, kSlurm), text_of(read(with(kOpenMpi, "BELLOWS_TOKEN=t")))},
      {kSlurm, "6/7 0/1 node003:14987 0 't' srun"},
      {with(kSlurm, "SLURM_PROCID=1 SLURM_LOCALID=1 SLURM_NODEID=0"),
       "1/7 1/2 node003:14987 0 't' srun"},
      {with(kSlurm, "SLURM_STEP_TASKS_PER_NODE=7 SLURM_NODEID=0"),
       "6/7 0/7 127.0.0.1:14987 0 't' srun"},
      {with(kSlurm, "SLURM_TASKS_PER_NODE= SLURM_NTASKS_PER_NODE=2 SLURM_NODEID=0"),
       "6/7 0/2 node003:14987 0 't' srun"},
      {with(kSlurm, "SLURM_STEP_ID=1"), "6/7 0/1 node003:28744 0 't' srun"},
      {with(kSlurm, "SLURM_STEP_NODELIST=x[7],y"), "6/7 0/1 x7:14987 0 't' srun"},
      {with({}, "SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_JOB_ID=9"), "0/1 0/1 127.0.0.1:0 0 '' srun"},
  };
  for (const auto& [variables, expected] : cases) EXPECT_EQ(text_of(read(variables)), expected);
}

// Names of jobs and runs can be guessed, so they are no tokens: ranks of one machine then meet on
// its loopback interface, and those of several do not meet.
TEST(RanksTest, WithoutATokenStayOnTheirMachine) {
  const std::pair<Variables, std::string> cases[] = {
      {with(kLaunch, "BELLOWS_LOCAL_RANK=2 BELLOWS_LOCAL_WORLD=4"),
       "2/4 2/4 127.0.0.1:4000 3 '' trainer launch"},
      {with(kTorchrun, "LOCAL_WORLD_SIZE=8 LOCAL_RANK=5"), "5/8 5/8 127.0.0.1:29503 2 '' torchrun"},
      {with(kOpenMpi, "MASTER_ADDR=head MASTER_PORT=5000"), "1/2 1/2 127.0.0.1:5000 0 '' mpirun"},
      {with(kSlurm, "SLURM_STEP_TASKS_PER_NODE=7 SLURM_NODEID=0"),
       "6/7 0/7 127.0.0.1:14987 0 '' srun"},
  };
  for (const auto& [variables, expected] : cases)
    EXPECT_EQ(text_of(read(with(variables, "BELLOWS_TOKEN="))), expected);
  const Variables mpirun = with(kOpenMpi, "OMPI_COMM_WORLD_SIZE=4 MASTER_ADDR=head");
  for (const Variables& variables : {kLaunch, kTorchrun, mpirun, kSlurm}) {
    const Refusal refusal = refused([&] { read(with(variables, "BELLOWS_TOKEN=")); });
    EXPECT_EQ(refusal.exit, Exit::usage);
    EXPECT_THAT(refusal.message,
                AllOf(StartsWith("BELLOWS_TOKEN: not set, but "),
                      HasSubstr("type  export BELLOWS_TOKEN=$(openssl rand -hex 16)  ")));
    EXPECT_EQ(refusal.message.ends_with(":  mpirun -x BELLOWS_TOKEN"),
              &variables == &mpirun || variables.contains("OMPI_COMM_WORLD_RANK"));
  }
}

TEST(RanksTest, ReadTheFirstHostOfSlurmsLists) {
  const Variables lists = {{"node[003-010,12],x1", "node003"},
                           {"a,b", "a"},
                           {"login-1", "login-1"},
                           {"n[7]", "n7"},
                           {"n[12,3-4]", "n12"},
                           {"rack[1-2]node[08-09].local,z", "rack1node08.local"}};
  for (const auto& [list, host] : lists)
    EXPECT_EQ(read(with(kSlurm, "SLURM_JOB_NODELIST=" + list)).host, host);
}

TEST(RanksTest, TheStoresPortMayBeGiven) {
  const DistOptions options{.store_port = 7000};
  for (const Variables& variables : {kLaunch, kTorchrun, kOpenMpi, kSlurm})
    EXPECT_EQ(read(variables, options).port, 7000);
  EXPECT_EQ(read(with(kTorchrun, "MASTER_PORT="), options).port, 7000);
}

TEST(RanksTest, JobsOfOpenMpiHavePortsOfTheirOwn) {
  const int port = read(kOpenMpi).port;
  EXPECT_EQ(read(with(kOpenMpi, "OMPI_COMM_WORLD_RANK=0")).port, port);
  EXPECT_NE(read(with(kOpenMpi, "OMPI_MCA_ess_base_jobid=78")).port, port);
  const Variables pmix =
      with(kOpenMpi, "OMPI_MCA_ess_base_jobid= PMIX_NAMESPACE=prterun-host-12@1");
  EXPECT_EQ(read(pmix).token, "");
  for (const int one : {port, read(pmix).port}) EXPECT_TRUE(one >= 10000 && one < 30000) << one;
}

TEST(RanksTest, RefuseMissingAndImpossibleValues) {
  const std::pair<Variables, const char*> cases[] = {
      {with(kLaunch, "BELLOWS_WORLD="), "BELLOWS_WORLD: not set, although BELLOWS_RANK is; "},
      {with(kLaunch, "BELLOWS_RANK=4"), "BELLOWS_RANK: expected an integer from 0 to 3, got '4'; "},
      {with(kLaunch, "BELLOWS_PORT=0"),
       "BELLOWS_PORT: expected an integer from 1 to 65535, got '0'; "},
      {with(kLaunch, "BELLOWS_PORT="), "BELLOWS_PORT: not set"},
      {with(kLaunch, "BELLOWS_HOST="), "BELLOWS_HOST: not set"},
      {with(kLaunch, "BELLOWS_ATTEMPT=-1"), "BELLOWS_ATTEMPT: expected an integer"},
      {with(kLaunch, cat("BELLOWS_TOKEN=", std::string(257, 't'))),
       "BELLOWS_TOKEN: expected at most"},
      {with({}, "RANK=0"), "WORLD_SIZE: not set, although RANK is; "},
      {with(kTorchrun, "RANK=-1"), "RANK: expected an integer from 0 to 7, got '-1'"},
      {with(kTorchrun, "RANK=1.0"), "RANK: expected an integer from 0 to 7, got '1.0'"},
      {with(kTorchrun, "WORLD_SIZE=0"), "WORLD_SIZE: expected an integer from 1 to 65536"},
      {with(kTorchrun, "WORLD_SIZE=8\n\x1b[2J"), "WORLD_SIZE: expected"},
      {with(kTorchrun, "LOCAL_RANK=4"), "LOCAL_RANK: expected an integer from 0 to 3"},
      {with(kTorchrun, "LOCAL_WORLD_SIZE=9"), "LOCAL_WORLD_SIZE: expected an integer from 1"},
      {with(kTorchrun, "MASTER_ADDR="), "MASTER_ADDR: not set, although RANK is"},
      {with(kTorchrun, "MASTER_PORT=65533"),  // + 1 + 2 restarts
       "MASTER_PORT: expected an integer from 1 to 65532, got '65533'"},
      {with(kOpenMpi, "OMPI_COMM_WORLD_LOCAL_SIZE="), "OMPI_COMM_WORLD_LOCAL_SIZE: not set"},
      {with(kOpenMpi, "OMPI_MCA_ess_base_jobid="), "MASTER_PORT: not set"},
      {with(kOpenMpi, "OMPI_COMM_WORLD_SIZE=4"),
       "MASTER_ADDR: not set, but mpirun started ranks on several machines; pass  -x MASTER_ADDR"},
      {with({}, "SLURM_PROCID=0"), "SLURM_NTASKS: not set, although SLURM_PROCID is"},
      {with(kSlurm, "SLURM_PROCID=7"), "SLURM_PROCID: expected an integer from 0 to 6"},
      {with(kSlurm, "SLURM_NODEID=4"), "SLURM_TASKS_PER_NODE: expected tasks per node"},
      {with(kSlurm, "SLURM_TASKS_PER_NODE=many"), "SLURM_TASKS_PER_NODE: expected tasks"},
      {with(kSlurm, "SLURM_TASKS_PER_NODE="), "SLURM_NTASKS_PER_NODE: not set"},
      {with(kSlurm, "SLURM_LOCALID=1"), "SLURM_LOCALID: expected an integer from 0 to 0"},
      {with(kSlurm, "SLURM_JOB_NODELIST=node[1-2"), "SLURM_JOB_NODELIST: expected hosts"},
      {with(kSlurm, "SLURM_JOB_NODELIST="), "SLURM_JOB_NODELIST: not set"},
      {with(kSlurm, "SLURM_JOB_ID="), "SLURM_JOB_ID: not set"},
  };
  for (const auto& [variables, message] : cases) {
    const Refusal refusal = refused([&, &v = variables] { read(v); });
    EXPECT_EQ(refusal.exit, Exit::usage);
    EXPECT_THAT(refusal.message, StartsWith(message));
    EXPECT_THAT(refusal.message, Not(HasSubstr("\n")));
  }
}

// ---- the meeting

static Ranks member(int rank, int world, int port) {
  Ranks ranks = place_of_rank(rank, world, port);
  ranks.launcher = "trainer launch";
  return ranks;
}
static DistOptions within(double timeout_s) { return {.timeout_s = timeout_s}; }

TEST(RendezvousTest, AWorldOfOneNeedsNoStore) {
  EXPECT_EQ(meet({}, {}), nullptr);
  EXPECT_EQ(this_rank({}).world, 1);
}

TEST(RendezvousTest, RanksMeetInAnyOrder) {
  for (const char* host : {"127.0.0.1", "localhost", "0.0.0.0"}) {
    const int port = free_port();
    std::vector<std::jthread> threads;
    for (const int rank : {2, 0, 3, 1}) {
      threads.emplace_back([=] {
        Ranks ranks = member(rank, 4, port);
        ranks.host = host;
        const std::shared_ptr<Store> store = meet(ranks, within(60));
        store->set(cat("from ", rank), cat(rank));
        for (int other = 0; other < 4; ++other)
          EXPECT_EQ(store->get(cat("from ", other), 60s), cat(other));
      });
      std::this_thread::sleep_for(10ms);  // rank 2 finds no store at first
    }
  }
}

TEST(RendezvousTest, MissingRanksAreNamedOnAllOthers) {
  const int port = free_port();
  std::vector<std::future<Refusal>> ranks;
  for (const int rank : {0, 1, 3})
    ranks.push_back(std::async(std::launch::async, [=] {
      return refused([=] { meet(member(rank, 4, port), within(rank == 0 ? 2 : 60)); });
    }));
  for (auto& rank : ranks) {
    const Refusal refusal = rank.get();
    EXPECT_EQ(refusal.exit, Exit::distributed);
    EXPECT_EQ(refusal.message,
              "rendezvous: rank 2 of 4 did not arrive within 2 s; its output may have the cause; "
              "start all ranks with trainer launch");
  }
}

TEST(RendezvousTest, ARefusedProcessIsNamedBesideTheMissingRank) {
  const int port = free_port();
  auto first = std::async(std::launch::async,
                          [=] { return refusal([=] { meet(member(0, 2, port), within(2)); }); });
  const std::string second = refusal([=] { meet(member(1, 3, port), within(60)); });
  EXPECT_THAT(
      second,
      AllOf(StartsWith(cat("rendezvous: rank 0 at 127.0.0.1 port ", port)),
            HasSubstr(" refused rank 1: it is rank 1 of 3 in attempt 0, but rank 0 expects 2")));
  EXPECT_THAT(
      first.get(),
      AllOf(StartsWith("rendezvous: rank 1 of 2 did not arrive within 2 s; "),
            HasSubstr("rank 0 refused a process: it is rank 1 of 3 in attempt 0, but rank 0")));
}

TEST(RendezvousTest, AnAbsentRankZeroIsNamed) {
  const int port = free_port();
  const Refusal refusal = refused([=] { meet(member(1, 2, port), within(0.3)); });
  EXPECT_EQ(refusal.exit, Exit::distributed);
  EXPECT_EQ(refusal.message,
            cat("rendezvous: rank 0 at 127.0.0.1 port ", port,
                " did not answer rank 1 within 0.3 s (Connection refused); its output may have the "
                "cause"));
}

// A request that nothing answers takes dist.timeout_s, or a second after that.
TEST(RendezvousTest, ARankZeroThatStopsAtAnyRequestEndsTheOthersInTime) {
  std::vector<std::future<void>> cases;
  for (int answered = 0; answered < 6; ++answered)  // two hellos, set, add, get, find
    cases.push_back(std::async(std::launch::async, [=] {
      SCOPED_TRACE(answered);
      const FakeServer server(std::min(answered, 2), std::vector(std::max(answered - 2, 0), kYes),
                              true);
      const auto begin = Clock::now();
      const Refusal refusal = refused([&] { meet(server.ranks(), within(1)); });
      EXPECT_LT(Clock::now() - begin, 8s);
      EXPECT_EQ(refusal.exit, Exit::distributed);
      EXPECT_THAT(refusal.message,
                  AllOf(StartsWith("rendezvous: "), HasSubstr("rank 0 at 127.0.")));
    }));
  for (auto& one : cases) one.get();
}

TEST(RendezvousTest, APortInUseIsReported) {
  const Descriptor listener = listen_on("127.0.0.1", 0);
  const int port = port_of(listener.get());
  const auto begin = Clock::now();
  const Refusal refusal = refused([=] { meet(member(0, 2, port), within(60)); });
  EXPECT_LT(Clock::now() - begin, 10s);
  EXPECT_EQ(refusal.exit, Exit::distributed);
  EXPECT_EQ(refusal.message, cat("rendezvous: rank 0 cannot listen on port ", port,
                                 ": Address already in use; see "
                                 "who holds it with  ss -ltnp, or set dist.store_port"));
}

// On rank 0 and on another rank.
TEST(RendezvousTest, ALackOfFileDescriptorsIsNoFaultOfThePort) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  const Refusal refusals[] = {refused([] { listen_on("127.0.0.1", 0); }),
                              refused([] { meet(member(1, 2, 29'999), within(60)); }), refused([] {
                                Ranks named = member(1, 2, 29'999);
                                named.host = "localhost";
                                meet(named, within(60));
                              })};
  setrlimit(RLIMIT_NOFILE, &before);
  for (const Refusal& refusal : refusals) {
    EXPECT_EQ(refusal.exit, Exit::memory);
    EXPECT_THAT(refusal.message, AllOf(HasSubstr("store: no "),
                                       HasSubstr(": Too many open files; raise  ulimit -n")));
  }
}

TEST(RendezvousTest, WaitsForAPortThatIsTakenWithoutAListener) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const int port = port_of(socket.get());
  auto listening =
      std::async(std::launch::async, [=] { return port_of(listen_on("127.0.0.1", port).get()); });
  EXPECT_EQ(listening.wait_for(100ms), std::future_status::timeout);
  ::close(socket.release());
  EXPECT_EQ(listening.get(), port);
}

// A store that only this machine's ranks use is not reachable from others.
TEST(RendezvousTest, LoopbackHostsAreServedOnTheLoopbackInterfaceOnly) {
  for (const auto& [host, loopback] : {std::pair("127.0.0.1", true),
                                       {"localhost", true},
                                       {"::1", true},
                                       {"0.0.0.0", false},
                                       {"node.invalid", false}}) {
    const Descriptor listener = listen_on(host, 0);
    sockaddr_storage own{};
    socklen_t size = sizeof(own);
    ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&own), &size), 0);
    const auto* const six = reinterpret_cast<const sockaddr_in6*>(&own);
    const auto* const four = reinterpret_cast<const sockaddr_in*>(&own);
    EXPECT_EQ(own.ss_family == AF_INET6 ? IN6_IS_ADDR_LOOPBACK(&six->sin6_addr)
                                        : four->sin_addr.s_addr == htonl(INADDR_LOOPBACK),
              loopback)
        << host;
  }
}
