// The only file that includes cuDNN's headers, because they take half a minute to compile. Built
// with the host compiler.
#include <cudnn_frontend.h>
#include "core/base/library.h"
#include "ops/vendor/cuda_call.h"
#include "ops/vendor/cudnn.h"

// Library handle through which the frontend looks up cuDNN's functions.
void* cudnn_frontend::cudnn_dlhandle = nullptr;

namespace bellows::cudnn {

namespace fe = cudnn_frontend;
using TensorRef = std::shared_ptr<fe::graph::Tensor_attributes>;

// ---- the library

bool available() {
  static const Library library("libcudnn.so.9", "convolutions run on plain kernels");
  // cuDNN loads NVRTC for every engine that it examines, and unloads it: over a thousand times for
  // the layers of the ResNets. While it is open here, that takes no time.
  if (library) static const Library nvrtc("libnvrtc.so.13");
  fe::cudnn_dlhandle = library.handle();
  return bool(library);
}

std::string version() { return available() ? fe::detail::get_backend_version_string() : ""; }

static const char* caller() { return running_kernel() ? running_kernel() : "cudnn"; }
static void check(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS) [[unlikely]]
    fail(Exit::internal, caller(), ": ", what, ": ", fe::detail::get_error_string(status), ", ",
         fe::detail::get_last_error_string_());
}
static void check(fe::error_t error, const char* what) {
  if (error.is_bad()) [[unlikely]]
    fail(Exit::internal, caller(), ": ", what, ": ", error.get_message());
}

// One handle for the process, never destroyed. Compute thread only.
static cudnnHandle_t handle() {
  static const cudnnHandle_t made = [] {
    cudnnHandle_t fresh = nullptr;
    check(fe::detail::create_handle(&fresh), "cudnnCreate");
    return fresh;
  }();
  return made;
}

static cudnnHandle_t handle_on_current_stream() {
  static cudaStream_t set = nullptr;
  if (const cudaStream_t stream = cuda::stream(); stream != set) {
    check(fe::detail::set_stream(handle(), stream), "cudnnSetStream");
    set = stream;
  }
  return handle();
}

// ---- descriptions

static fe::DataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return fe::DataType_t::DOUBLE;
    case DType::bf16:
      return fe::DataType_t::BFLOAT16;
    case DType::f16:
      return fe::DataType_t::HALF;
    default:
      return fe::DataType_t::FLOAT;
  }
}

static std::vector<int64_t> numbers(const Shape& shape) { return {shape.begin(), shape.end()}; }

namespace {
// The frontend's graph, with access to its protected list of engines.
struct Engines : fe::graph::Graph {
  // Fills the list with proposals and excludes those that the filter rejects.
  fe::error_t propose(DType dtype, const Filter& filter, Search search);
  std::string name(int64_t engine) const;
  fe::graph::Execution_plan_list& list() { return plans; }
};
}  // namespace

struct Graph::Description {
  DType dtype;
  bool multiplies = false;
  std::shared_ptr<Engines> engines = std::make_shared<Engines>();
  std::vector<TensorRef> tensors = {};  // by Id - 1

  Id keep(TensorRef tensor) {
    tensor->set_uid(Id(tensors.size()) + 1);
    tensors.push_back(std::move(tensor));
    return tensors.back()->get_uid();
  }
  const TensorRef& at(Id id) const { return tensors.at(id - 1); }
  template <class Attributes> Attributes window(const Conv2dOptions& o) {
    multiplies = true;
    return Attributes()
        .set_padding({o.padding, o.padding})
        .set_stride({o.stride, o.stride})
        .set_dilation({1, 1});
  }
};

Graph::Graph(DType dtype) : description_(new Description{dtype}) {
  const fe::DataType_t computed = type_of(dtype == DType::f64 ? DType::f64 : DType::f32);
  description_->engines->set_io_data_type(type_of(dtype))
      .set_intermediate_data_type(computed)
      .set_compute_data_type(computed);
}
Graph::Graph(Graph&&) noexcept = default;
Graph::~Graph() = default;

Id Graph::input(const Layout& layout) {
  return description_->keep(
      description_->engines->tensor(fe::graph::Tensor_attributes()
                                        .set_dim(numbers(layout.shape))
                                        .set_stride(numbers(layout.strides))
                                        .set_data_type(type_of(layout.dtype))));
}

void Graph::output(Id tensor, const Layout& layout) {
  description_->at(tensor)
      ->set_dim(numbers(layout.shape))
      .set_stride(numbers(layout.strides))
      .set_data_type(type_of(layout.dtype))
      .set_output(true);
}

Id Graph::conv2d(Id x, Id w, const Conv2dOptions& options) {
  Description& d = *description_;
  return d.keep(
      d.engines->conv_fprop(d.at(x), d.at(w), d.window<fe::graph::Conv_fprop_attributes>(options)));
}
Id Graph::conv2d_backward_x(Id dy, Id w, const Conv2dOptions& options) {
  Description& d = *description_;
  return d.keep(d.engines->conv_dgrad(d.at(dy), d.at(w),
                                      d.window<fe::graph::Conv_dgrad_attributes>(options)));
}
Id Graph::conv2d_backward_w(Id dy, Id x, const Conv2dOptions& options) {
  Description& d = *description_;
  return d.keep(d.engines->conv_wgrad(d.at(dy), d.at(x),
                                      d.window<fe::graph::Conv_wgrad_attributes>(options)));
}

Id Graph::add(Id a, Id b) {
  Description& d = *description_;
  return d.keep(d.engines->pointwise(
      d.at(a), d.at(b), fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD)));
}

// ---- engines

fe::error_t Engines::propose(DType dtype, const Filter& filter, Search search) {
  using Mode = fe::HeurMode_t;
  using Note = fe::NumericalNote_t;
  const fe::error_t status = create_execution_plans(
      search == Search::quick ? std::vector{Mode::A, Mode::FALLBACK}
                              : std::vector{Mode::A, Mode::B, Mode::FALLBACK});
  if (status.is_bad()) return status;
  std::vector<Note> without = {Note::REDUCED_PRECISION_REDUCTION, Note::DOWN_CONVERT_INPUTS};
  if (filter.deterministic) without.push_back(Note::NONDETERMINISTIC);
  if (dtype == DType::f32 && !filter.tf32) without.push_back(Note::TENSOR_CORE);
  deselect_numeric_notes(without);
  if (search == Search::thorough)
    deselect_behavior_notes({fe::BehaviorNote_t::RUNTIME_COMPILATION});
  deselect_workspace_greater_than(filter.workspace_bytes);
  return {};
}

std::string Engines::name(int64_t engine) const {
  std::string name;
  check(plans.get_name_at_index(engine, name), "cuDNN does not name an engine");
  return name;
}

namespace {
// Built engine of a graph, which frees it although other plans may keep the graph.
struct Engine : VendorPlan {
  Engine(std::shared_ptr<Engines> engines, int64_t index, bool tf32)
      : engines(std::move(engines)), index(index), tf32(tf32) {}
  ~Engine() override { engines->list().execution_plans.at(index).reset(); }
  Engine(Engine&&) = delete;

  int64_t workspace_bytes() const override {
    return engines->get_workspace_size_plan_at_index(index);
  }
  void run(Bindings bindings) const override {
    for (const auto& [tensor, address] : bindings)
      if (tensor) addresses[tensor] = const_cast<void*>(address);
    const CudaCall call(workspace, tf32);
    fe::error_t error = engines->execute_plan_at_index(handle_on_current_stream(), addresses,
                                                       call.workspace(), index);
    if (error.is_bad()) [[unlikely]]
      throw PlanFailure(error.get_message());
  }

  std::shared_ptr<Engines> engines;
  int64_t index;
  bool tf32;
  int64_t workspace = workspace_bytes();
  mutable std::unordered_map<Id, void*> addresses = {};
};
}  // namespace

Proposals Graph::propose(const Filter& filter, Search search) && {
  const std::shared_ptr<Engines> engines = description_->engines;
  check(engines->validate(), "cuDNN does not take the graph");
  Proposals all;
  if (engines->build_operation_graph(handle()).is_bad() ||
      engines->propose(description_->dtype, filter, search).is_bad())
    return all;
  const bool tf32 = description_->multiplies && description_->dtype == DType::f32 && filter.tf32;
  for (int64_t i = 0; i < engines->get_execution_plan_count(); ++i)
    all.push_back({engines->name(i), [=]() -> std::shared_ptr<const VendorPlan> {
                     if (engines->build_plan_at_index(handle(), i).is_bad()) return nullptr;
                     return std::make_shared<Engine>(engines, i, tf32);
                   }});
  return all;
}

// Errors are not thrown: they mean "not supported".
Support Graph::support(const Filter& filter, Search search, const std::string& properties) && {
  Engines& engines = *description_->engines;
  const auto device = std::make_shared<fe::DeviceProperties>();
  check(device->deserialize({properties.begin(), properties.end()}), "device properties");
  engines.set_device_properties(device);
  fe::error_t status = engines.validate();
  if (status.is_good()) status = engines.build_operation_graph();
  if (status.is_good()) status = engines.propose(description_->dtype, filter, search);
  if (status.is_bad()) return {.why_not = status.get_message()};
  for (int64_t i = 0; i < engines.get_execution_plan_count(); ++i)
    status = engines.list().check_support_at_index(i);
  // In spite of its name this returns the engines that are not barred.
  auto able = engines.list().get_barred_engine_configs();
  if (able.empty()) return {.why_not = status.get_message()};
  Support support{.engines = int64_t(able.size()), .first = fe::detail::get_engine_tag(able[0])};
  check(fe::detail::get_workspace_size(able[0], support.workspace_bytes), "workspace size");
  return support;
}

}  // namespace bellows::cudnn
