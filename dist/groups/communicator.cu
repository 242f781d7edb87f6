#include <cstring>
#include <mutex>
#include <thread>
#include "core/base/registry.h"
#include "core/device/cuda.h"
#include "dist/groups/communicator.h"
#include "dist/groups/nccl_library.h"

namespace bellows {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLook = std::chrono::microseconds(100), kPoll = std::chrono::microseconds(20);
constexpr Timeout kFarewell(2000);  // limit for the other ranks to finalize theirs

class OwnStream {
 public:
  OwnStream() {
    const Event enters_the_gpu(Device::cuda);
    int lowest = 0, highest = 0;
    CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    CUDA_CHECK(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, highest));
  }
  ~OwnStream() { cudaStreamDestroy(stream_); }
  OwnStream(OwnStream&&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

ncclDataType_t type_of(const Tensor& t) {
  const DType type = t.dtype();
  return type == DType::f64    ? ncclFloat64
         : type == DType::bf16 ? ncclBfloat16
         : type == DType::f16  ? ncclFloat16
         : type == DType::i64  ? ncclInt64
                               : ncclFloat32;
}
// NCCL divides by the number of ranks in the kernel that adds.
ncclRedOp_t op_of(Reduction reduction) { return reduction == Reduction::sum ? ncclSum : ncclAvg; }

// Returns the id of the communicator, which rank 0 creates.
ncclUniqueId shared_id(const GroupContext& group, const std::string& prefix) {
  ncclUniqueId id{};
  if (group.ranks.rank == 0) {
    const ncclResult_t result = nccl().ncclGetUniqueId(&id);
    if (result != ncclSuccess)
      fail(Exit::distributed, "nccl: ", nccl().ncclGetErrorString(result), " (",
           nccl().ncclGetLastError(nullptr), "); set NCCL_DEBUG=INFO to see why");
    if (group.store) group.store->set(prefix + "id", {id.internal, sizeof id.internal});
    return id;
  }
  const std::string bytes = group.store->get(prefix + "id", group.timeout());
  INVARIANT(bytes.size() == sizeof id.internal, "nccl: an id of ", bytes.size(), " bytes");
  std::memcpy(id.internal, bytes.data(), bytes.size());
  return id;
}

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(const GroupContext& group, const std::string& prefix, int64_t max_ctas)
      : timeout_(group.timeout()) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (max_ctas) config.maxCTAs = static_cast<int>(max_ctas);
    const ncclUniqueId id = shared_id(group, prefix);
    try {
      call([&] {
        return nccl().ncclCommInitRankConfig(&comm_, group.ranks.world, id, group.ranks.rank,
                                             &config);
      });
    } catch (const Error& error) {
      abort();
      fail(Exit::distributed, "nccl: the ranks did not connect: ", error.what(),
           "; set NCCL_DEBUG=INFO to see why");
    }
  }
  ~NcclCommunicator() override {
    try {
      const auto end = Clock::now() + kFarewell;
      if (comm_ && settled([&] { return nccl().ncclCommFinalize(comm_); }, end) == ncclSuccess)
        nccl().ncclCommDestroy(std::exchange(comm_, nullptr));
    } catch (const Error&) {  // the communicator was aborted meanwhile
    }
    abort();
  }

  Stream stream() const override { return {Device::cuda, cudaStream_t(stream_)}; }

  void all_reduce(const Tensor& t, Reduction reduction) override {
    call([&] {
      return nccl().ncclAllReduce(t.bytes(), t.bytes(), t.numel(), type_of(t), op_of(reduction),
                                  comm_, stream_);
    });
  }
  void broadcast(const Tensor& t, int root) override {
    call([&] {
      return nccl().ncclBroadcast(t.bytes(), t.bytes(), t.numel(), type_of(t), root, comm_,
                                  stream_);
    });
  }
  void all_gather(const Tensor& mine, const Tensor& all) override {
    call([&] {
      return nccl().ncclAllGather(mine.bytes(), all.bytes(), mine.numel(), type_of(mine), comm_,
                                  stream_);
    });
  }

  std::string error() override {
    const std::lock_guard lock(mutex_);
    if (!comm_) return "";
    ncclResult_t state = ncclSuccess;
    const ncclResult_t result = nccl().ncclCommGetAsyncError(comm_, &state);
    if (result != ncclSuccess) state = result;
    return state == ncclSuccess || state == ncclInProgress ? "" : text_of(state);
  }

  void abort() noexcept override {
    const std::lock_guard lock(mutex_);
    if (comm_) nccl().ncclCommAbort(std::exchange(comm_, nullptr));
  }

 private:
  std::string text_of(ncclResult_t result) const {
    const std::string more = nccl().ncclGetLastError(comm_);
    return cat(nccl().ncclGetErrorString(result), more.empty() ? "" : " (" + more + ")");
  }

  // A non-blocking communicator returns "in progress" for the host's part of a call, and accepts no
  // other call until that part has ended, which rarely takes longer than kLook.
  template <class Fn> ncclResult_t settled(const Fn& fn, Clock::time_point end) {
    std::unique_lock lock(mutex_);
    ncclResult_t result = fn();
    const auto sleeps_from = Clock::now() + kLook;
    while (result == ncclInProgress && Clock::now() < end) {
      lock.unlock();
      if (Clock::now() > sleeps_from) std::this_thread::sleep_for(kPoll);
      lock.lock();
      refuse_if_aborted();
      nccl().ncclCommGetAsyncError(comm_, &result);
    }
    return result;
  }
  template <class Fn> void call(const Fn& fn) {
    const ncclResult_t result = settled(
        [&] {
          if (connected_) refuse_if_aborted();
          return fn();
        },
        Clock::now() + timeout_);
    connected_ = true;
    if (result == ncclInProgress)
      fail(Exit::distributed, "not done within ", timeout_.count(), " ms");
    const std::lock_guard lock(mutex_);
    if (result != ncclSuccess) fail(Exit::distributed, text_of(result));
  }
  void refuse_if_aborted() const {
    if (!comm_) fail(Exit::distributed, "the communicator was aborted");
  }

  const Timeout timeout_;
  const OwnStream stream_;
  std::mutex mutex_;
  ncclComm_t comm_ = nullptr;  // null: not made yet, or aborted
  bool connected_ = false;
};

}  // namespace

static std::unique_ptr<Communicator> make(const GroupContext& group, const std::string& prefix,
                                          int64_t max_ctas) {
  return std::make_unique<NcclCommunicator>(group, prefix, max_ctas);
}
static const Provide entry(make_communicator, make);

}  // namespace bellows
