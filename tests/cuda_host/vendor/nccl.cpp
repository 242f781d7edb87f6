// Replaces dist/groups/nccl_library.cu.
#include "tests/cuda_host/vendor/nccl.h"
#include <cstring>
#include <map>
#include "core/base/dtype.h"
#include "dist/groups/nccl_library.h"
#include "tests/cuda_host/runtime.h"

using namespace cuda_host;

namespace {

// One rank's part of a collective.
struct Part {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
};
using Parts = std::vector<Part>;  // by rank

// A collective on which some ranks, not all, have arrived.
struct Meeting {
  std::string text;
  OperationRef done;
  Operations arrivals;
  Parts parts;
  bool broken = false;
};
struct World {
  int size = 0, joined = 0;
  std::map<int64_t, Meeting> meetings;  // by number
};

// Guarded by the runtime's mutex.
std::map<std::string, std::shared_ptr<World>> worlds;
std::vector<OperationRef> hung;
int ids = 0;

}  // namespace

struct ncclComm {
  std::shared_ptr<World> world;
  int rank;
  int64_t started = 0;
  ncclResult_t error = ncclSuccess;
  bool connects = true;
};

namespace {

// Runs an API call like those of the runtime.
ncclResult_t nccl_call(const std::function<void()>& body) {
  return api(body) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

bellows::DType dtype_of(ncclDataType_t type) {
  static const std::map<ncclDataType_t, bellows::DType> known = {
      {ncclFloat32, bellows::DType::f32},
      {ncclFloat64, bellows::DType::f64},
      {ncclFloat16, bellows::DType::f16},
      {ncclBfloat16, bellows::DType::bf16},
      {ncclInt64, bellows::DType::i64}};
  return known.at(type);
}

// Adds in the order of the ranks, 16 bits in f32, and rounds once.
template <class T> std::vector<T> reduced(const Parts& parts, size_t n, bool mean) {
  using Sum = std::conditional_t<sizeof(T) == 2, float, T>;
  std::vector<T> all(n);
  for (size_t i = 0; i < n; ++i) {
    Sum sum{};
    for (const Part& part : parts)
      sum += bellows::convert<Sum>(reinterpret_cast<const T*>(part.from)[i]);
    all[i] = bellows::convert<T>(mean ? sum / static_cast<Sum>(parts.size()) : sum);
  }
  return all;
}

// A rank arrives when its stream reaches this call. The exchange follows the last arrival, and all
// streams continue after it.
void meet(ncclComm_t comm, const std::string& text, const Part& part, cudaStream_t stream,
          const std::function<void(const Parts&)>& exchange) {
  require_same_gpu("a collective");
  require_stream(stream);
  World& world = *comm->world;
  nccl_library.calls.push_back({comm->rank, text, stream});
  const bool broken = std::exchange(nccl_library.breaks, false);
  if (broken) comm->error = std::exchange(nccl_library.error, ncclSuccess);
  const auto describe = [text] { return text; };
  if (world.size == 1 && !broken)
    return enqueue(stream, describe, [=] { run_watched([&] { exchange({part}); }); });
  REQUIRE(!stream->capture, cudaErrorStreamCaptureUnsupported,
          "this stand-in captures collectives of one rank only");
  Meeting& meeting = world.meetings[comm->started++];
  if (!meeting.done) {
    meeting.text = text;
    meeting.done = open_operation(describe);
    meeting.parts.resize(world.size);
  }
  REQUIRE(meeting.text == text, cudaErrorInvalidValue, "rank ", comm->rank, " starts ", text,
          ", another rank ", meeting.text);
  meeting.broken |= broken;
  enqueue(stream, describe, [] {});
  meeting.arrivals.push_back(stream->next_after.at(0));
  stream->next_after = {meeting.done};
  meeting.parts[comm->rank] = part;
  if (int(meeting.arrivals.size()) < world.size || meeting.broken) return;
  start_open(meeting.done, meeting.arrivals,
             [parts = meeting.parts, exchange] { run_watched([&] { exchange(parts); }); });
  world.meetings.erase(comm->started - 1);
}

ncclResult_t get_unique_id(ncclUniqueId* id) {
  return nccl_call([=] { std::snprintf(id->internal, sizeof id->internal, "world %d", ++ids); });
}

ncclResult_t init(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  const ncclResult_t result = nccl_call([=] {
    require_same_gpu("a communicator");
    REQUIRE(config->blocking == 0, cudaErrorInvalidValue, "a communicator that blocks");
    auto& world = worlds[id.internal];
    if (!world) world = std::make_shared<World>(World{size, 0, {}});
    ++world->joined;
    *comm = new ncclComm{world, rank};
    (*comm)->connects = !std::exchange(nccl_library.never_connects, false);
    nccl_library.calls.push_back(
        {rank,
         bellows::cat("ncclCommInitRankConfig",
                      config->maxCTAs > 0 ? bellows::cat(", max_ctas ", config->maxCTAs) : ""),
         nullptr});
  });
  return result == ncclSuccess ? ncclInProgress : result;
}

ncclResult_t async_error(ncclComm_t comm, ncclResult_t* error) {
  return nccl_call([=] {
    const World& world = *comm->world;
    *error = world.joined < world.size || !comm->connects ? ncclInProgress : comm->error;
  });
}

ncclResult_t destroy(ncclComm_t comm) {
  return nccl_call([=] {
    nccl_library.calls.push_back({comm->rank, "ncclCommDestroy", nullptr});
    delete comm;
  });
}

ncclResult_t abort_communicator(ncclComm_t comm) {
  return nccl_call([=] {
    nccl_library.calls.push_back({comm->rank, "ncclCommAbort", nullptr});
    ++nccl_library.aborted;
    // The collectives that this rank has reached; other ranks wait on.
    std::erase_if(comm->world->meetings, [comm](const auto& entry) {
      const Meeting& meeting = entry.second;
      const bool reached = meeting.parts[comm->rank].from;
      if (reached) drop_open(meeting.done);
      return reached;
    });
    for (const OperationRef& operation : std::exchange(hung, {})) drop_open(operation);
    delete comm;
  });
}

const char* error_string(ncclResult_t result) {
  return result == ncclRemoteError   ? "remote process exited or there was a network error"
         : result == ncclSystemError ? "unhandled system error"
                                     : "an error of NCCL";
}

ncclResult_t all_reduce(const void* from, void* to, size_t n, ncclDataType_t type, ncclRedOp_t op,
                        ncclComm_t comm, cudaStream_t stream) {
  return nccl_call([=] {
    const bool mean = op == ncclAvg;
    meet(comm, bellows::cat("ncclAllReduce of ", n, " ", dtype_of(type), mean ? ", avg" : ", sum"),
         {static_cast<const std::byte*>(from), static_cast<std::byte*>(to)}, stream,
         [=](const Parts& parts) {
           bellows::visit_dtype(dtype_of(type), [&]<class T>(T) {
             const std::vector<T> all = reduced<T>(parts, n, mean);
             for (const Part& part : parts) std::memcpy(part.to, all.data(), n * sizeof(T));
           });
         });
  });
}

ncclResult_t broadcast(const void* from, void* to, size_t n, ncclDataType_t type, int root,
                       ncclComm_t comm, cudaStream_t stream) {
  return nccl_call([=] {
    meet(comm, bellows::cat("ncclBroadcast of ", n, " ", dtype_of(type), " from ", root),
         {static_cast<const std::byte*>(from), static_cast<std::byte*>(to)}, stream,
         [=](const Parts& parts) {
           for (const Part& part : parts)
             if (part.to != parts[root].from)
               std::memcpy(part.to, parts[root].from, n * bellows::size_of(dtype_of(type)));
         });
  });
}

ncclResult_t all_gather(const void* from, void* to, size_t n, ncclDataType_t type, ncclComm_t comm,
                        cudaStream_t stream) {
  return nccl_call([=] {
    meet(comm, bellows::cat("ncclAllGather of ", n, " ", dtype_of(type)),
         {static_cast<const std::byte*>(from), static_cast<std::byte*>(to)}, stream,
         [=](const Parts& parts) {
           const size_t bytes = n * bellows::size_of(dtype_of(type));
           for (const Part& part : parts)
             for (size_t r = 0; r < parts.size(); ++r)
               std::memcpy(part.to + r * bytes, parts[r].from, bytes);
         });
  });
}

}  // namespace

namespace cuda_host {

void hang(cudaStream_t stream) {
  const std::lock_guard lock(runtime.mutex);
  hung.push_back(open_operation([] { return "a collective that hangs"; }));
  stream->next_after.push_back(hung.back());
}

}  // namespace cuda_host

namespace bellows {

const NcclLibrary& nccl() {
  static const NcclLibrary functions = {
      .loaded = Library("stand-in"),
      .ncclGetUniqueId = ::get_unique_id,
      .ncclCommInitRankConfig = ::init,
      .ncclCommGetAsyncError = ::async_error,
      .ncclCommFinalize = [](ncclComm_t) { return ncclSuccess; },
      .ncclCommDestroy = ::destroy,
      .ncclCommAbort = abort_communicator,
      .ncclGetErrorString = ::error_string,
      .ncclGetLastError = [](ncclComm_t) { return ""; },
      .ncclAllReduce = ::all_reduce,
      .ncclBroadcast = ::broadcast,
      .ncclAllGather = ::all_gather,
  };
  return functions;
}

}  // namespace bellows
