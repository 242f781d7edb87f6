#include "dist/rendezvous/rendezvous.h"
#include <netdb.h>
#include <cstdlib>
#include "core/base/words.h"
#include "dist/rendezvous/store_server.h"
#include "dist/rendezvous/tcp_store.h"

namespace bellows {

const Ranks& this_rank(const DistOptions& options) {
  static const Ranks ranks =
      ranks_from([](const char* name) { return std::getenv(name); }, options);
  return ranks;
}

void check_alone(const std::string& verb, const DistOptions& options) {
  const int world = this_rank(options).world;
  CHECK(world == 1, verb, ": measures one rank, and the launcher started ", world,
        "; run it without a launcher");
}

std::string why_unknown(const std::string& host) {
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, nullptr, &found);
  if (!error) freeaddrinfo(found);
  return error ? gai_strerror(error) : "";
}

bool is_gone(Store& store, int rank) {
  if (!store.wait("gone", Timeout(0))) return false;
  return cat(" ", store.get("gone", Timeout(0)), " ").find(cat(" ", rank, " ")) !=
         std::string::npos;
}

namespace {
// Rank 0's store. Members are destroyed in reverse order, so its own connections end before the
// server waits for those of the others.
struct HostedStore {
  HostedStore(const Ranks& ranks, Timeout timeout)
      : server(ranks), store(server.seen_from_inside(), timeout) {}

  StoreServer server;
  TcpStore store;
};
}  // namespace

static std::shared_ptr<Store> connect(const Ranks& ranks, Timeout timeout) {
  if (ranks.rank > 0) return std::make_shared<TcpStore>(ranks, timeout);
  const auto hosted = std::make_shared<HostedStore>(ranks, timeout);
  return {hosted, &hosted->store};
}

static std::string key_of(int rank) { return cat("rendezvous/rank ", rank); }

// Time limit of a request to rank 0 once dist.timeout_s has passed.
static constexpr Timeout kAnswer(1000);

// Returns the missing ranks, "rank 2 of 4" or "ranks 1, 2 of 4"; "" if the last one has just
// arrived. Throws if rank 0 is stuck.
static std::string missing(Store& store, int world) {
  Names names;
  int64_t more = 0;
  for (int rank = 0; rank < world; ++rank) {
    store.end_within(kAnswer);
    if (store.wait(key_of(rank), Timeout(0))) continue;
    if (names.size() < 8)
      names.push_back(std::to_string(rank));
    else
      ++more;
  }
  if (names.empty()) return "";
  return cat(names.size() == 1 ? "rank " : "ranks ", joined(names),
             more ? cat(" and ", more, " more") : "", " of ", world);
}

// Returns "" once all ranks have arrived, else the reason why they have not. The rank that arrives
// last, or the first one that times out, publishes the result.
static std::string arrive(Store& store, const Ranks& ranks, Clock::time_point deadline,
                          double timeout_s) {
  const char* const result_key = "rendezvous/result";
  store.set(key_of(ranks.rank), "");
  if (store.add("rendezvous/arrived", 1) == ranks.world) store.set(result_key, "");
  const bool late = !store.wait(result_key, until(deadline));
  const std::string absent = late ? missing(store, ranks.world) : "";
  if (!absent.empty()) {
    std::string reason = cat(absent, " did not arrive within ", timeout_s, " s");
    if (store.wait("rendezvous/refused", Timeout(0)))
      reason += cat("; rank 0 refused a process: ", store.get("rendezvous/refused", Timeout(0)));
    else
      reason += cat("; its output may have the cause; start all ranks with ", ranks.launcher);
    store.set(result_key, reason);
  }
  return store.get(result_key, late ? kAnswer : Timeout(0));
}

std::shared_ptr<Store> meet(const Ranks& ranks, const DistOptions& options) {
  if (ranks.world == 1) return nullptr;
  const Timeout timeout = timeout_of(options.timeout_s);
  const auto deadline = deadline_after(timeout);
  const std::shared_ptr<Store> store = connect(ranks, timeout);
  std::string result;
  try {
    result = arrive(*store, ranks, deadline, options.timeout_s);
  } catch (const Error& error) {  // from the store; rank 0's fails only without descriptors
    fail(ranks.rank ? error.exit : Exit::memory, "rendezvous: ", error.what());
  }
  if (!result.empty()) fail(Exit::distributed, "rendezvous: ", result);
  store->end_within(Timeout::max());
  return store;
}

}  // namespace bellows
