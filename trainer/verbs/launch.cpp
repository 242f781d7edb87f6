// trainer launch --ranks N -- arguments: runs the program in N processes, the ranks of one run.
#include <fmt/format.h>
#include <algorithm>
#include <cstdlib>
#include <optional>
#include "core/base/output.h"
#include "core/config/config.h"
#include "core/config/hint.h"
#include "dist/rendezvous/rendezvous.h"
#include "dist/rendezvous/tcp_store.h"
#include "plan/toggle.h"
#include "trainer/launch/supervise.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

namespace {
struct LaunchLine {
  int64_t ranks = 1, nodes = 1, node_rank = 0, port = 0;  // port 0: a free one
  std::string host = "127.0.0.1", token, output = "rank0";
  SuperviseOptions supervise;
};
}  // namespace

static void declare(CommandLine& line, LaunchLine& given) {
  line.add_option("--ranks,-n", given.ranks, "processes on this machine").required().range(1, 1024);
  line.add_option("--nodes", given.nodes, "machines; run the command on each, with its --node-rank")
      .range(1, 65536)
      .shows_default();
  line.add_option("--node-rank", given.node_rank, "number of this machine, from 0").range(0, 65535);
  line.add_option("--host", given.host, "address of machine 0").shows_default();
  line.add_option("--port", given.port, "free port of machine 0 (default on one machine: any)")
      .range(1, 65535);
  line.add_option(
      "--token", given.token,
      "secret that all machines share (default: the variable BELLOWS_TOKEN, which other "
      "users cannot see)");
  line.add_option("--output", given.output,
                  "rank0: of rank 0 only, unchanged; all: of all ranks, each line after its [rank]")
      .one_of({"rank0", "all"})
      .value_name("rank0|all");
  line.add_option("--grace", given.supervise.grace_s,
                  "seconds from SIGTERM to SIGKILL, for the other ranks when one has failed")
      .positive()
      .shows_default();
  line.add_note(
      "The arguments of each rank follow --. The exit code is that of the first rank that failed.");
}

static std::string variable(const char* name, const std::string& otherwise) {
  const char* const value = std::getenv(name);
  return value && *value ? value : otherwise;
}

static void check_nodes(const CommandLine& line, const LaunchLine& given) {
  CHECK(given.node_rank < given.nodes, "launch: --node-rank ", given.node_rank, " of ", given.nodes,
        " machines; count from 0");
  if (const std::string why = why_unknown(given.host); !why.empty()) {
    const std::string problem = cat("launch: --host ", on_one_line(given.host), ": ", why);
    CHECK(given.nodes > 1, problem, "; give the name or the address of machine 0");
    warn(problem + "; the ranks ask again until dist.timeout_s");  // its name may come later
  }
  if (given.nodes == 1) return;
  for (const char* name : {"--node-rank", "--host", "--port"})
    CHECK(line.given(name), "launch: --nodes needs ", name, "; add it, see  trainer launch --help");
  CHECK(!given.token.empty(),
        "launch: --nodes needs a token; type  export BELLOWS_TOKEN=$(openssl rand -hex 16)  and "
        "give it to all machines");
}

static Command make_command(int64_t local_rank, const LaunchLine& given, const Arguments& args) {
  Command command = {{"/proc/self/exe"}};
  command.argv.insert(command.argv.end(), args.begin(), args.end());
  const auto set = [&](const char* name, const auto& value) {
    command.variables.push_back(cat(name, "=", value));
  };
  set("BELLOWS_RANK", given.node_rank * given.ranks + local_rank);
  set("BELLOWS_WORLD", given.nodes * given.ranks);
  set("BELLOWS_LOCAL_RANK", local_rank);
  set("BELLOWS_LOCAL_WORLD", given.ranks);
  set("BELLOWS_HOST", given.host);
  set("BELLOWS_PORT", given.port);
  set("BELLOWS_ATTEMPT", variable("BELLOWS_ATTEMPT", "0"));
  set("BELLOWS_TOKEN", given.token);
  return command;
}

// Returns dist.timeout_s of the run that the ranks will start, or the default if that is unknown.
static double read_timeout(const Arguments& args) {
  try {
    Arguments given;
    for (const std::string& arg : args)
      if (arg.starts_with("dist.timeout_s=")) given.push_back(arg);
    auto file =
        std::ranges::find_if(args, [](auto& arg) { return arg == "--config" || arg == "-c"; });
    if (file != args.end()) ++file;
    return make_config(read_sources(file == args.end() ? "" : *file, given)).plan.dist.timeout_s;
  } catch (const Error&) {  // the ranks report the error
    return DistOptions{}.timeout_s;
  }
}

static int run_launch(CommandLine& line, const Arguments& args) {
  LaunchLine given;
  declare(line, given);
  const auto dashes = std::ranges::find(args, "--");
  const std::string none =
      "launch: no arguments for the ranks; write them after --, as in  trainer launch --ranks 2 "
      "-- --config FILE";
  if (!line.read({args.begin(), dashes}, dashes == args.end() ? none : "")) return 0;
  CHECK(dashes != args.end() && dashes + 1 != args.end(), none);
  const Arguments rank_args(dashes + 1, args.end());
  given.supervise.all_output = given.output == "all";
  if (given.token.empty() && given.nodes > 1) given.token = variable("BELLOWS_TOKEN", "");
  check_nodes(line, given);
  if (given.token.empty())
    for (const char byte : random_nonce().substr(0, 16))
      given.token += fmt::format("{:02x}", uint8_t(byte));
  std::optional<ReservedPort> reserved;
  if (given.port == 0) given.port = reserved.emplace().number();
  if (given.nodes * given.ranks == 1 && !given.supervise.all_output)
    become(make_command(0, given, rank_args));  // keeps stdin and terminal
  std::vector<RankCommand> ranks;
  for (int64_t rank = 0; rank < given.ranks; ++rank)
    ranks.push_back({given.node_rank * given.ranks + rank, make_command(rank, given, rank_args)});
  given.supervise.timeout_s = read_timeout(rank_args);
  return supervise(ranks, given.supervise);
}

static const AddVerb launch_verb({"launch",
                                  "trains on several ranks: runs the program in N processes",
                                  "trainer launch --ranks 2 -- --config configs/lenet.yaml "
                                  "train.max_iters=20",
                                  run_launch, "train"});

}  // namespace bellows
