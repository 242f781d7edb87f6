// ProcessGroup: the ranks that train one model together, and their collectives.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include "core/tensor/tensor.h"
#include "dist/base/options.h"
#include "dist/rendezvous/rendezvous.h"
#include "dist/rendezvous/store.h"

namespace bellows {

enum class Reduction { sum, mean };

// A collective that has started. Its tensors must stay alive and untouched until wait() returns.
struct Work {
  // Makes later work of the current stream (on the CPU: the caller) see the results. Throws Error,
  // exit 7, if the collective failed or took longer than dist.timeout_s; the group is then dead.
  std::function<void()> wait;
};

// Returns the elements of a dense tensor in the order of its memory, (numel).
inline Tensor flat(const Tensor& t) {
  return t.view({t.numel()}, strides_of({t.numel()}), t.offset());
}

// All ranks must start the same collectives in the same order, from one thread. Tensors are dense
// and contiguous; their dtype is f32, f64, bf16, f16 or i64 (i64: sum only). `what` names a
// collective in errors and in the flight recorder, for example "bucket 2".
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual int rank() const = 0;
  virtual int world() const = 0;
  virtual std::string backend() const = 0;  // name of its entry: "gloo"
  // Returns how values travel, for logs: "gloo, shared memory".
  virtual std::string path() const { return backend(); }
  // True if collectives run on the GPU's streams. Then tensors are on the GPU, wait() does not make
  // the host wait, and a graph can capture collectives. Those that start in a capture must end in
  // it, and the graph must be destroyed before the group.
  virtual bool on_streams() const { return false; }

  virtual Work all_reduce(const Tensor& t, Reduction reduction, const std::string& what) = 0;
  virtual Work broadcast(const Tensor& t, int root, const std::string& what) = 0;
  // mine: (n), all: (world * n): the values of all ranks, by rank.
  virtual Work all_gather(const Tensor& mine, const Tensor& all, const std::string& what) = 0;
  // all: (world * n) on `root`, ignored elsewhere; mine: (n). gather: the root receives the values
  // of all ranks, by rank. scatter: each rank receives its part of the root's. Both block until
  // that is done.
  virtual void gather(const Tensor& mine, const Tensor& all, int root, const std::string& what);
  virtual void scatter(const Tensor& all, const Tensor& mine, int root, const std::string& what);
  // Returns once all ranks have called it.
  virtual void barrier(const std::string& what) = 0;
  // Sends the other ranks the reason why this one leaves, so that they report it. Their pending and
  // later collectives throw. For a rank that ends with an error of its own.
  void abort(const std::string& why) noexcept;
  // Returns the last dist.flight_recorder collectives of this rank, one line each, to be kept if
  // the run fails; "" in a world of one.
  virtual std::string flight_report() const { return ""; }
  // Call after each launch of a graph with collectives of this group, on the current stream.
  // dist.timeout_s then limits the graph as well. Throws as Work::wait() does.
  virtual void graph_launched() {}

  int64_t step = 0;  // update in progress, counted from 1, for errors; set by the loop

 private:
  virtual void leave(const std::string& cause) = 0;  // `cause` names the rank
};

// Gives all ranks the values of rank 0, and waits for them. Throws as Work::wait() does.
void broadcast_from_root(ProcessGroup& group, const NamedTensors& tensors);

// Returns "sum" or "mean".
const char* name_of(Reduction reduction);
// Throws Error, exit 2, unless `t` fits a group with tensors on `device`. `what` names it.
void check_collective(const ProcessGroup& group, Device device, const Tensor& t,
                      Reduction reduction, const std::string& what);
// Also checks that `all`, on the root or of the result, has world * `mine` elements.
void check_collective(const ProcessGroup& group, Device device, const Tensor& mine,
                      const Tensor& all, const std::string& what);

struct GroupContext {
  Ranks ranks;
  std::shared_ptr<Store> store;  // shared by all ranks; null in a world of one
  Device device = Device::cpu;   // device of the tensors
  DistOptions options;

  Timeout timeout() const { return timeout_of(options.timeout_s); }
  // Returns the prefix of a new group's keys in the store. Equal on all ranks, because they make
  // the same groups in the same order. "" in a world of one.
  std::string new_prefix(const std::string& backend) const;
};

}  // namespace bellows
