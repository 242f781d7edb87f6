// Launchers differ in their environment variables only. ranks_from() turns those of trainer launch,
// torchrun, Open MPI and Slurm into Ranks. Rank 0 serves the store on the launcher's port, on one
// above it if torchrun itself uses that port, or else on one derived from the job's id.
#include <algorithm>
#include <charconv>
#include <cstring>
#include "core/base/crc32c.h"
#include "core/base/file.h"
#include "core/config/hint.h"
#include "dist/rendezvous/rendezvous.h"
#include "dist/rendezvous/sockets.h"

namespace bellows {

namespace {
constexpr int kMaxWorld = 65536, kMaxPort = 65535, kMaxAttempt = 10000;

// Names of a launcher's variables; null: it has none. If `rank` is set, it started this process.
struct Launcher {
  const char *name, *rank, *world, *local_rank;
  const char *local_world = nullptr, *attempt = nullptr, *host = nullptr, *port = nullptr;
};
constexpr Launcher kLaunchers[] = {
    {"trainer launch", "BELLOWS_RANK", "BELLOWS_WORLD", "BELLOWS_LOCAL_RANK", "BELLOWS_LOCAL_WORLD",
     "BELLOWS_ATTEMPT", "BELLOWS_HOST", "BELLOWS_PORT"},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
     "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr, "MASTER_ADDR", "MASTER_PORT"},
    {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"}};
constexpr const Launcher &kTorchrun = kLaunchers[1], &kMpirun = kLaunchers[2],
                         &kSrun = kLaunchers[3];

struct Environment {
  const std::function<const char*(const char*)>& variable;
  const Launcher& launcher;

  bool is(const Launcher& l) const { return &launcher == &l; }
  // Null if the variable is not set or empty.
  const char* find(const char* name) const {
    const char* const value = variable(name);
    return value && *value ? value : nullptr;
  }
  // Returns the first name that is set, or the last one.
  const char* first_of(std::initializer_list<const char*> names) const {
    for (const char* name : names)
      if (find(name)) return name;
    return *std::rbegin(names);
  }
  std::string text(const char* name, const char* fallback = nullptr) const {
    const char* const value = find(name);
    CHECK(value || fallback, name, ": not set, although ", launcher.rank, " is; set it, or unset ",
          launcher.rank, " to train alone");
    return value ? value : fallback;
  }
  int number(const char* name, int min, int max, const char* fallback = nullptr) const {
    const std::string value = text(name, fallback);
    int n = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
    CHECK(error == std::errc() && end == value.data() + value.size() && n >= min && n <= max, name,
          ": expected an integer from ", min, " to ", max, ", got ", on_one_line(value),
          "; set it as the launcher does");
    return n;
  }
};
}  // namespace

// Returns the first host of a list such as "node[003-010,12],x1": "node003". "" if it is malformed.
static std::string first_host(const std::string& list) {
  std::string host;
  for (size_t at = 0; at < list.size() && list[at] != ','; ++at) {
    if (list[at] != '[') {
      host += list[at];
      continue;
    }
    const size_t close = list.find(']', at);
    if (close == list.npos) return "";
    host += list.substr(at + 1, list.find_first_of("-,]", at) - at - 1);
    at = close;
  }
  return host;
}

// Returns the number of tasks on a node, from a list such as "2(x3),1": 2 on nodes 0 to 2. Returns
// 0 if the list is too short.
static int tasks_on_node(const std::string& list, int node) {
  for (size_t at = 0; at < list.size(); at = list.find(',', at), at += at != list.npos) {
    int tasks = 0, nodes = 1;
    const char* const end = list.data() + list.size();
    const char* const rest = std::from_chars(list.data() + at, end, tasks).ptr;
    if (end - rest > 2 && std::memcmp(rest, "(x", 2) == 0) std::from_chars(rest + 2, end, nodes);
    if (node < nodes) return tasks;
    node -= nodes;
  }
  return 0;
}

static void read_local(const Environment& env, Ranks& r) {
  const Launcher& l = env.launcher;
  if (env.is(kTorchrun) && !env.find(l.local_rank) && !env.find(l.local_world)) {
    // The processes were started manually, one per machine or all on this one.
    if (is_loopback(env.text(l.host, ""))) r.local_rank = r.rank, r.local_world = r.world;
    return;
  }
  if (env.is(kSrun)) {
    const int node = env.number("SLURM_NODEID", 0, kMaxWorld);
    const char* const name = env.first_of(
        {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE"});
    const std::string tasks = env.text(name);
    r.local_world = std::min(r.world, tasks_on_node(tasks, node));
    CHECK(r.local_world > 0, name, ": expected tasks per node such as 2(x3),1, got ",
          on_one_line(tasks), "; set it as srun does");
  } else {
    r.local_world = env.number(l.local_world, 1, r.world);
  }
  r.local_rank = env.number(l.local_rank, 0, r.local_world - 1);
}

static std::string host_of(const Environment& env, bool all_local) {
  if (env.is(kSrun) && !all_local) {
    const char* const name = env.first_of({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"});
    const std::string nodes = env.text(name), host = first_host(nodes);
    CHECK(!host.empty(), name, ": expected hosts such as node[1-4], got ", on_one_line(nodes),
          "; set it as srun does");
    return host;
  }
  if (env.is(kSrun)) return "127.0.0.1";
  CHECK(!env.is(kMpirun) || all_local || env.find("MASTER_ADDR"),
        "MASTER_ADDR: not set, but mpirun started ranks on several machines; pass  "
        "-x MASTER_ADDR=HOST  with the host of rank 0");
  return env.text(env.launcher.host, env.is(kMpirun) ? "127.0.0.1" : nullptr);
}

// Ports 10000 to 29999, below those that systems assign to outgoing connections.
static int port_of_job(const std::string& job) {
  return 10000 + static_cast<int>(crc32c(bytes_of(job)) % 20000);
}

static int port_of(const Environment& env, int attempt) {
  if (env.is(kSrun))  // steps of one job may run side by side: each has a port of its own
    return port_of_job(cat(env.text("SLURM_JOB_ID"), ".", env.text("SLURM_STEP_ID", "0")));
  const char* const job = env.find(env.first_of({"OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE"}));
  if (env.is(kMpirun) && job && !env.find(env.launcher.port)) return port_of_job(job);
  // If torchrun's agent serves a store, MASTER_PORT is the port of that store.
  const bool taken =
      env.is(kTorchrun) && env.text("TORCHELASTIC_USE_AGENT_STORE", "False") == "True";
  const int offset = taken ? 1 + attempt : 0;
  return offset + env.number(env.launcher.port, 1, kMaxPort - offset);
}

Ranks ranks_from(const std::function<const char*(const char*)>& variable,
                 const DistOptions& options) {
  Ranks r;
  const auto set = [&](const Launcher& l) { return variable(l.rank) && *variable(l.rank); };
  const auto* const launcher = std::ranges::find_if(kLaunchers, set);
  if (launcher == std::end(kLaunchers)) return r;
  const Environment env{variable, *launcher};
  r.launcher = launcher->name;
  r.port = static_cast<int>(options.store_port);
  r.world = env.number(launcher->world, 1, kMaxWorld);
  r.rank = env.number(launcher->rank, 0, r.world - 1);
  const int attempt = launcher->attempt ? env.number(launcher->attempt, 0, kMaxAttempt, "0") : 0;
  r.attempt = std::to_string(attempt);
  if (r.world == 1) return r;  // for example in the shell of an interactive Slurm allocation
  read_local(env, r);
  const bool all_local = r.local_world == r.world;
  r.host = host_of(env, all_local);
  if (!r.port) r.port = port_of(env, attempt);
  r.token = env.text("BELLOWS_TOKEN", "");
  CHECK(r.token.size() <= 256, "BELLOWS_TOKEN: expected at most 256 bytes, got ", r.token.size(),
        "; use a shorter one");
  CHECK(!r.token.empty() || all_local,
        "BELLOWS_TOKEN: not set, but the ranks of several machines need a common secret; type  "
        "export BELLOWS_TOKEN=$(openssl rand -hex 16)  on one of them, and give it to all",
        env.is(kMpirun) ? ":  mpirun -x BELLOWS_TOKEN" : "");
  if (r.token.empty()) r.host = "127.0.0.1";
  return r;
}

}  // namespace bellows
