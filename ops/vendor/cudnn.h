// cuDNN 9's graphs, without cuDNN's headers. A graph is described once; of the engines that cuDNN
// proposes for it some are built into plans; a plan is run with other addresses each time.
//
//   Graph graph(DType::bf16);
//   const Id x = graph.input(x_layout), w = graph.input(w_layout), y = graph.conv2d(x, w, {});
//   graph.output(y, y_layout);
//   const std::vector<Plan> plans = std::move(graph).plans(filter(), Search::quick, 1);
//   if (!plans.empty()) plans[0].run({{x, x_.bytes()}, {w, w_.bytes()}, {y, y_.bytes()}});
#pragma once
#include <memory>
#include <vector>
#include "ops/conv/conv2d.h"

namespace bellows::cudnn {

// cuDNN is on this machine; where it is not, one line on stderr says so, once.
bool available();
std::string version();  // "9.19.0": of the library that is loaded
std::string loaded();   // "cuDNN 9.19.0" or "no cuDNN"

// How a tensor of a graph lies in memory. Of u8: a bit an element.
struct Layout {
  Layout(const Shape& shape, const MemoryFormat& format, DType dtype)
      : shape(shape), strides(strides_of(shape, format)), dtype(dtype) {}
  Shape shape;
  Strides strides;
  DType dtype;
};

// Which engines may take part. Sums of 16-bit products are in f32 with all of them.
struct Filter {
  bool tf32 = false;           // f32 with a 10-bit mantissa
  bool deterministic = false;  // the same bits every time
  int64_t workspace_bytes = int64_t{1} << 30;
  bool operator==(const Filter&) const = default;
};
Filter filter();  // what the KernelOptions in force ask for

// quick: in the order of cuDNN's cheap heuristic. thorough: all that any heuristic proposes.
enum class Search { quick, thorough };

using Id = int64_t;  // a tensor of a graph

// An engine with its knobs, built for a graph.
class Plan {
 public:
  struct Built;
  explicit Plan(std::shared_ptr<Built> built) : built_(std::move(built)) {}
  const std::string& name() const;  // "eng62_k2=4_k13=0": the same for the same graph and cuDNN
  int64_t workspace_bytes() const;

  // On the current stream, in scratch memory from the allocator; counted as kernel.vendor_calls.
  // A tensor 0 is left out.
  struct Binding {
    Id tensor;
    const void* address;
  };
  void run(std::initializer_list<Binding> bindings) const;

 private:
  std::shared_ptr<Built> built_;
};

// What cuDNN says about a graph for a device that need not be here.
struct Support {
  int64_t engines = 0;          // that pass the filter
  std::string first = {};       // the name of the best by its own guess, "" if there is none
  int64_t workspace_bytes = 0;  // of that one
  std::string why_not = {};     // in cuDNN's words, where there is none
};

class Graph {
 public:
  explicit Graph(DType dtype);  // of its tensors; computes in f32, f64 in f64
  // What stays inside of the graph is of that type, too; else it is f32.
  Graph(DType dtype, DType inside);
  Graph(Graph&&) noexcept;
  ~Graph();

  Id input(const Layout& layout);
  // Nodes. What they give stays inside of the graph unless it is made an output.
  Id conv2d(Id x, Id w, const Conv2dOptions& options);
  Id conv2d_backward_x(Id dy, Id w, const Conv2dOptions& options);
  Id conv2d_backward_w(Id dy, Id x, const Conv2dOptions& options);
  Id add(Id a, Id b);  // b may be stretched
  Id subtract(Id a, Id b);
  Id multiply(Id a, Id b);
  Id relu(Id x);
  Id positive(Id x);              // bits of x > 0
  Id where(Id bits, Id dy);       // dy or 0, in the type of the graph's tensors
  Id relu_backward(Id dy, Id x);  // dy where x > 0
  // Of batch normalisation; all that is (1, C, 1, 1) is in f32. `inverse` = 1 / sqrt(var + eps).
  struct Normalized {
    Id y, mean, inverse;
  };
  Normalized batch_norm(Id x, Id weight, Id bias, double eps);
  struct NormalizedGrads {
    Id dx, dw, db;
  };
  NormalizedGrads batch_norm_backward(Id dy, Id x, Id weight, Id mean, Id inverse);
  // Its sums alone, and dx = scale_dy * dy + scale_x * x + shift.
  struct NormalizedSums {
    Id dw, db, scale_dy, scale_x, shift;
  };
  NormalizedSums batch_norm_backward_w(Id dy, Id x, Id weight, Id mean, Id inverse);
  struct ChannelSums {
    Id sum, squares;
  };
  ChannelSums channel_sums(Id x);
  void output(Id tensor, const Layout& layout);
  void inside(Id tensor, const Layout& layout);  // of what no rule gives the shape of

  // The first `most` engines that build. Takes the description with it, as all below.
  std::vector<Plan> plans(const Filter& filter, Search search, size_t most) &&;
  // The one of that name, which an earlier search has found; empty if it is not there any more.
  std::vector<Plan> plan(const Filter& filter, const std::string& name) &&;
  // Without a device: its properties are a JSON text as cuDNN serializes them. Builds nothing.
  Support support(const Filter& filter, Search search, const std::string& device_properties) &&;

 private:
  struct Description;
  std::unique_ptr<Description> description_;
};

// A graph is told that addresses are multiples of 16 bytes; views need not be.
bool is_aligned(const Tensor& t);
Tensor aligned(const Tensor& t);  // t, or a copy

}  // namespace bellows::cudnn
