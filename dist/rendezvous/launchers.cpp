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
constexpr int kMaxWorld = 65536, kMaxPort = 65535;

// Variables that a launcher sets. If `marker` is set, that launcher started this process.
struct Environment {
  const std::function<const char*(const char*)>& variable;
  const char* marker;

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
    CHECK(value || fallback, name, ": not set, although ", marker, " is; set it, or unset ", marker,
          " to train alone");
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

static void read_world(const Environment& env, Ranks& r, const char* rank, const char* world) {
  r.world = env.number(world, 1, kMaxWorld);
  r.rank = env.number(rank, 0, r.world - 1);
}

static void read_local(const Environment& env, Ranks& r, const char* rank, const char* world) {
  r.local_world = env.number(world, 1, r.world);
  r.local_rank = env.number(rank, 0, r.local_world - 1);
}

static bool all_local(const Ranks& r) { return r.local_world == r.world; }

// Ports 10000 to 29999, below those that systems assign to outgoing connections.
static int port_of_job(const std::string& job) {
  return 10000 + static_cast<int>(crc32c(bytes_of(job)) % 20000);
}

static void trainer_launch(const Environment& env, Ranks& r) {
  read_world(env, r, "BELLOWS_RANK", "BELLOWS_WORLD");
  read_local(env, r, "BELLOWS_LOCAL_RANK", "BELLOWS_LOCAL_WORLD");
  r.attempt = std::to_string(env.number("BELLOWS_ATTEMPT", 0, kMaxPort, "0"));
  if (r.world == 1) return;
  r.host = env.text("BELLOWS_HOST");
  if (!r.port) r.port = env.number("BELLOWS_PORT", 1, kMaxPort);
}

static void torchrun(const Environment& env, Ranks& r) {
  read_world(env, r, "RANK", "WORLD_SIZE");
  if (env.find("LOCAL_RANK") || env.find("LOCAL_WORLD_SIZE"))
    read_local(env, r, "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  else if (is_loopback(env.text("MASTER_ADDR", "")))  // started by hand: all on this machine
    r.local_rank = r.rank, r.local_world = r.world;
  const int restarts = env.number("TORCHELASTIC_RESTART_COUNT", 0, 10000, "0");
  r.attempt = std::to_string(restarts);
  if (r.world == 1) return;
  r.host = env.text("MASTER_ADDR");
  // If torchrun's agent serves a store, MASTER_PORT is the port of that store.
  const bool taken = env.text("TORCHELASTIC_USE_AGENT_STORE", "False") == "True";
  const int offset = taken ? 1 + restarts : 0;
  if (!r.port) r.port = offset + env.number("MASTER_PORT", 1, kMaxPort - offset);
}

static void open_mpi(const Environment& env, Ranks& r) {
  read_world(env, r, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  read_local(env, r, "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE");
  const char* const id = env.find("OMPI_MCA_ess_base_jobid");
  const std::string job = id ? id : env.text("PMIX_NAMESPACE", "");
  if (r.world == 1) return;
  CHECK(all_local(r) || env.find("MASTER_ADDR"),
        "MASTER_ADDR: not set, but mpirun started ranks on "
        "several machines; pass  -x MASTER_ADDR=HOST  with the host of rank 0");
  r.host = env.text("MASTER_ADDR", "127.0.0.1");
  if (r.port) return;
  const bool derived = !env.find("MASTER_PORT") && !job.empty();
  r.port = derived ? port_of_job(job) : env.number("MASTER_PORT", 1, kMaxPort);
}

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

static void slurm(const Environment& env, Ranks& r) {
  r.world = env.number("SLURM_NTASKS", 1, kMaxWorld);
  if (r.world == 1) return;  // true in the shell of an interactive allocation, too
  r.rank = env.number("SLURM_PROCID", 0, r.world - 1);
  const int node = env.number("SLURM_NODEID", 0, kMaxWorld);
  const char* name =
      env.first_of({"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE"});
  const std::string tasks = env.text(name);
  r.local_world = std::min(r.world, tasks_on_node(tasks, node));
  CHECK(r.local_world > 0, name, ": expected tasks per node such as 2(x3),1, got ",
        on_one_line(tasks), "; set it as srun does");
  r.local_rank = env.number("SLURM_LOCALID", 0, r.local_world - 1);
  if (!all_local(r)) {
    name = env.first_of({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"});
    r.host = first_host(env.text(name));
    CHECK(!r.host.empty(), name, ": expected hosts such as node[1-4], got ",
          on_one_line(env.text(name)), "; set it as srun does");
  }
  // Steps of one job may run side by side: each has a port of its own.
  const std::string step = cat(env.text("SLURM_JOB_ID"), ".", env.text("SLURM_STEP_ID", "0"));
  if (!r.port) r.port = port_of_job(step);
}

Ranks ranks_from(const std::function<const char*(const char*)>& variable,
                 const DistOptions& options) {
  static constexpr struct {
    const char *marker, *name;
    void (*read)(const Environment&, Ranks&);
  } launchers[] = {{"BELLOWS_RANK", "trainer launch", trainer_launch},
                   {"RANK", "torchrun", torchrun},
                   {"OMPI_COMM_WORLD_RANK", "mpirun", open_mpi},
                   {"SLURM_PROCID", "srun", slurm}};
  Ranks ranks;
  for (const auto& launcher : launchers) {
    const Environment env{variable, launcher.marker};
    if (!env.find(launcher.marker)) continue;
    ranks.launcher = launcher.name;
    ranks.port = static_cast<int>(options.store_port);
    launcher.read(env, ranks);
    ranks.token = env.text("BELLOWS_TOKEN", "");
    CHECK(ranks.token.size() <= 256, "BELLOWS_TOKEN: expected at most 256 bytes, got ",
          ranks.token.size(), "; use a shorter one");
    if (!ranks.token.empty() || ranks.world == 1) break;
    CHECK(all_local(ranks), "BELLOWS_TOKEN: not set, but the ranks of several machines need a ",
          "common secret; type  export BELLOWS_TOKEN=$(openssl rand -hex 16)  on one of them, and ",
          "give it to all", launcher.read == open_mpi ? ":  mpirun -x BELLOWS_TOKEN" : "");
    ranks.host = "127.0.0.1";
    break;
  }
  return ranks;
}

}  // namespace bellows
