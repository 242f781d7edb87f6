// Ranks as threads of this process. Their group exchanges and reduces real values, in the order of
// the ranks, so every run has the same bits. A rank that starts another collective than the others
// did, or in another order, fails all of them.
#pragma once
#include <omp.h>
#include <algorithm>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>
#include "core/base/half.h"
#include "dist/groups/process_group.h"

namespace bellows {

// The place where the ranks' collectives meet. The last rank to arrive computes the results of all,
// in its own thread, while the others go on: so a tensor changes between start and wait().
class Meeting {
 public:
  struct Part {
    Tensor in, out;
  };
  using Parts = std::vector<Part>;  // by rank
  using Exchange = std::function<void(const Parts&)>;

  explicit Meeting(int world) : world(world) {}
  const int world;

  void arrive(int64_t number, int rank, const std::string& what, Part part,
              const Exchange& exchange) {
    const std::lock_guard lock(mutex_);
    Collective& c = collectives_[number];
    if (c.arrived == 0) c.what = what;
    c.parts.resize(world);
    c.parts[rank] = std::move(part);
    if (c.what != what && why_.empty())
      why_ = cat("collective ", number, ": rank ", rank, " started ", what, ", others ", c.what);
    if (++c.arrived == world && why_.empty()) exchange(c.parts);
    changed_.notify_all();
    refuse_if_broken();
  }
  void await(int64_t number) {
    std::unique_lock lock(mutex_);
    const auto ready = [&] { return collectives_[number].arrived == world || !why_.empty(); };
    if (!changed_.wait_for(lock, std::chrono::seconds(60), ready))
      why_ = cat("collective ", number, ", ", collectives_[number].what, ": a rank is missing");
    refuse_if_broken();
  }
  void abort(const std::string& why) noexcept {
    const std::lock_guard lock(mutex_);
    if (why_.empty()) why_ = why;
    changed_.notify_all();
  }

 private:
  struct Collective {
    std::string what;
    Parts parts;
    int arrived = 0;
  };
  void refuse_if_broken() const {
    if (!why_.empty()) fail(Exit::distributed, why_);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, Collective> collectives_;
  std::string why_;  // the group is broken
};

class ThreadGroup : public ProcessGroup {
 public:
  ThreadGroup(std::shared_ptr<Meeting> meeting, int rank)
      : meeting_(std::move(meeting)), rank_(rank) {}

  int rank() const override { return rank_; }
  int world() const override { return meeting_->world; }
  std::string backend() const override { return "threads"; }
  Work all_reduce(const Tensor& t, Reduction reduction, const std::string& what) override {
    return start("all_reduce", what, {t, t}, [reduction](const Meeting::Parts& parts) {
      const Tensor sum = total(parts, reduction);
      for (const auto& [in, out] : parts) copy(out, 0, sum, 0, sum.numel());
    });
  }
  Work broadcast(const Tensor& t, int root, const std::string& what) override {
    return start("broadcast", what, {t, t}, [root](const Meeting::Parts& parts) {
      for (const auto& [in, out] : parts)
        if (out.bytes() != parts[root].in.bytes()) copy(out, 0, parts[root].in, 0, out.numel());
    });
  }
  Work all_gather(const Tensor& mine, const Tensor& all, const std::string& what) override {
    return start("all_gather", what, {mine, all}, [n = mine.numel()](const Meeting::Parts& parts) {
      for (const auto& [in, out] : parts)
        for (size_t r = 0; r < parts.size(); ++r) copy(out, r * n, parts[r].in, 0, n);
    });
  }
  void barrier(const std::string& what) override {
    start("barrier", what, {zeros({1}), {}}, [](const Meeting::Parts&) {}).wait();
  }

  std::vector<std::string> started;  // by this rank: "bucket 0 (w)"
  int64_t bytes = 0;                 // that it passed to collectives

 private:
  void leave(const std::string& cause) override { meeting_->abort(cause); }
  Work start(const char* op, const std::string& what, Meeting::Part part,
             const Meeting::Exchange& exchange) {
    const int64_t number = std::ssize(started);
    started.push_back(what);
    bytes += static_cast<int64_t>(part.in.nbytes());
    CHECK(part.in.is_contiguous(), what, ": strides ", part.in.strides());
    const std::string full = cat(op, " of ", what, ", ", part.in.dtype(), " ", part.in.shape());
    meeting_->arrive(number, rank_, full, std::move(part), exchange);
    return {[meeting = meeting_, number] { meeting->await(number); }};
  }
  static void copy(const Tensor& to, int64_t to_at, const Tensor& from, int64_t from_at,
                   int64_t n) {
    const size_t size = size_of(to.dtype());
    std::copy_n(from.bytes() + from_at * size, n * size, to.bytes() + to_at * size);
  }
  // Added in the order of the ranks, in f32 for 16-bit types.
  static Tensor total(const Meeting::Parts& parts, Reduction reduction) {
    const Tensor& first = parts.front().in;
    const Tensor sum(first.shape(), first.dtype());
    visit_dtype(first.dtype(), [&]<class T>(T) {
      using Sum = std::conditional_t<std::is_integral_v<T>, int64_t, Acc<T>>;
      for (int64_t i = 0; i < sum.numel(); ++i) {
        Sum all = 0;
        for (const Meeting::Part& part : parts) all += static_cast<Sum>(part.in.ptr<T>()[i]);
        if (reduction == Reduction::mean) all /= static_cast<Sum>(parts.size());
        sum.ptr<T>()[i] = static_cast<T>(all);
      }
    });
    return sum;
  }

  const std::shared_ptr<Meeting> meeting_;
  const int rank_;
};

// Calls body(group) on `world` threads, each of which has one OpenMP thread: libgomp has a pool per
// calling thread. Rethrows the error of the first rank that failed.
inline void on_ranks(int world, const std::function<void(ThreadGroup&)>& body) {
  const auto meeting = std::make_shared<Meeting>(world);
  std::mutex mutex;
  std::exception_ptr first;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < world; ++rank)
      threads.emplace_back([&, rank] {
        omp_set_num_threads(1);
        ThreadGroup group(meeting, rank);
        try {
          body(group);
        } catch (...) {
          {
            const std::lock_guard lock(mutex);
            if (!first) first = std::current_exception();
          }
          group.abort("an exception");
        }
      });
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace bellows
