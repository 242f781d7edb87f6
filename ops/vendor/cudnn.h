// Wrapper of cuDNN 9's graph API that does not include cuDNN's headers. A Graph is described, cuDNN
// proposes engines for it, and a PlannedCall runs one of them with new addresses each time. Compute
// thread only. Other errors of cuDNN than those of a plan throw Exit::internal.
//
//   Graph graph(DType::bf16);
//   const Id x = graph.input(x_layout), w = graph.input(w_layout), y = graph.conv2d(x, w, {});
//   graph.output(y, y_layout);
//   const Proposals plans = std::move(graph).propose(filter(), Search::quick);
//   if (const auto plan = plans.at(0).build()) plan->run({{x, x_}, {w, w_}, {y, y_}});
#pragma once
#include <memory>
#include "ops/conv/conv2d.h"
#include "ops/vendor/planned_call.h"

namespace bellows::cudnn {

// True if cuDNN is installed. If not, the first call prints one line on stderr. Everything below
// except version() and loaded() requires it.
bool available();
std::string version();  // "9.19.0", or "" without cuDNN
std::string loaded();   // "cuDNN 9.19.0" or "no cuDNN"
// With `deterministic` on, a Filter admits only engines that give the same bits every time.
inline constexpr Vendor kVendor{.thread_invariant = true, .version = loaded};

// Shape, strides and dtype of a tensor in a graph.
struct Layout {
  Layout(const Shape& shape, const MemoryFormat& format, DType dtype)
      : shape(shape), strides(strides_of(shape, format)), dtype(dtype) {}
  Shape shape;
  Strides strides;
  DType dtype;
};

// Selects engines. All selected engines sum 16-bit products in f32.
struct Filter {
  bool tf32 = false;           // allow f32 products with a 10-bit mantissa
  bool deterministic = false;  // only engines that give the same bits every time
  int64_t workspace_bytes = int64_t{1} << 30;
  bool operator==(const Filter&) const = default;
};
Filter filter();  // from the current KernelOptions
std::ostream& operator<<(std::ostream& out, const Filter& filter);

using Id = int64_t;  // a tensor of a graph; 0: none

// cuDNN's support for a graph on a device that need not be present.
struct Support {
  int64_t engines = 0;          // number of engines that pass the filter
  std::string first = {};       // name of the engine that cuDNN ranks first, "" if there is none
  int64_t workspace_bytes = 0;  // for the first engine
  std::string why_not = {};     // cuDNN's message if there is no engine
};

// Description of a graph. Methods return the Ids of the tensors they add.
class Graph {
 public:
  // Inputs and outputs are of `dtype`. Computes in f32, for f64 in f64.
  explicit Graph(DType dtype);
  Graph(Graph&&) noexcept;
  ~Graph();

  Id input(const Layout& layout);
  // Nodes. Their results are intermediate unless passed to output().
  Id conv2d(Id x, Id w, const Conv2dOptions& options);
  Id conv2d_backward_x(Id dy, Id w, const Conv2dOptions& options);
  Id conv2d_backward_w(Id dy, Id x, const Conv2dOptions& options);
  Id add(Id a, Id b);                            // b may be broadcast
  void output(Id tensor, const Layout& layout);  // makes a node's result an output

  // The functions below consume the description.
  // Returns the engines that pass the filter, in cuDNN's order, as "eng62_k2=4_k13=0". A thorough
  // search takes engines of all heuristics, except those that compile at run time, which take
  // 0.5 s each. Addresses in a plan's Bindings are a multiple of 16 bytes; those of tensor 0 are
  // ignored.
  Proposals propose(const Filter& filter, Search search) &&;
  // Reports support without building a plan or using a device. `device_properties` is JSON as cuDNN
  // serializes it.
  Support support(const Filter& filter, Search search, const std::string& device_properties) &&;

 private:
  struct Description;
  std::unique_ptr<Description> description_;
};

// A described graph and the Ids of its tensors, which are the same in each description of it.
template <class Tensors> struct Described {
  Graph graph;
  Tensors tensors = {};
};
// A layer's call, as it lies in its slot: the process's call for the key, and the graph's tensors.
template <class Tensors> struct Planned {
  // describe(key) describes the graph.
  template <class Key>
  Planned(const Key& key, Described<Tensors> (*describe)(const Key&))
      : tensors(describe(key).tensors),
        call(planned_call(cat(loaded(), " ", key), [key, describe](Search search) {
          return std::move(describe(key).graph).propose(key.filter, search);
        })) {}
  Tensors tensors;
  std::shared_ptr<PlannedCall> call;
};

// Returns t itself if its address is a multiple of 16 bytes, as graphs require, else a copy. Views
// may be unaligned.
Tensor aligned(const Tensor& t);

// An output of a graph: t itself if it is aligned and in the memory format, else a temporary that
// done() copies to t.
class Output {
 public:
  explicit Output(const Tensor& t);  // any format
  Output(const Tensor& t, const MemoryFormat& format);
  const Tensor& tensor() const { return written_; }
  void done() const;

 private:
  Tensor t_, written_;
};

}  // namespace bellows::cudnn
