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
  using Type = fe::DataType_t;
  if (dtype == DType::f64) return Type::DOUBLE;
  return dtype == DType::bf16 ? Type::BFLOAT16 : dtype == DType::f16 ? Type::HALF : Type::FLOAT;
}

static std::vector<int64_t> numbers(const Shape& shape) { return {shape.begin(), shape.end()}; }

namespace {
// The graph of a convolution, with access to the frontend's protected list of engines.
struct Engines : fe::graph::Graph {
  explicit Engines(const Convolution& convolution);
  // Fills the list with proposals and excludes those that the filter rejects.
  fe::error_t propose(const Convolution& convolution, Search search);
  fe::graph::Execution_plan_list& list() { return plans; }
};
}  // namespace

Engines::Engines(const Convolution& c) {
  using namespace fe::graph;
  const fe::DataType_t computed = type_of(c.dtype == DType::f64 ? DType::f64 : DType::f32);
  set_io_data_type(type_of(c.dtype))
      .set_intermediate_data_type(computed)
      .set_compute_data_type(computed);
  const auto describe = [&](Tensor_attributes & t, int64_t id, const Shape& shape) -> auto& {
    return t.set_uid(id)
        .set_dim(numbers(shape))
        .set_stride(numbers(strides_of(shape, c.format)))
        .set_data_type(type_of(c.dtype));
  };
  const auto input = [&](int64_t id, const Shape& shape) {
    Tensor_attributes t;
    return tensor(describe(t, id, shape));
  };
  const auto window = [&]<class Attributes>(Attributes attributes) {
    return attributes.set_padding({c.options.padding, c.options.padding})
        .set_stride({c.options.stride, c.options.stride})
        .set_dilation({1, 1});
  };
  const TensorRef first = input(kFirst, c.first()), second = input(kSecond, c.second());
  TensorRef result;
  if (c.half == Half::forward)
    result = conv_fprop(first, second, window(Conv_fprop_attributes()));
  else if (c.half == Half::backward_x)
    result = conv_dgrad(first, second, window(Conv_dgrad_attributes()));
  else
    result = conv_wgrad(first, second, window(Conv_wgrad_attributes()));
  if (c.bias)
    result = pointwise(result, input(kBias, {1, c.w[0], 1, 1}),
                       Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
  describe(*result, kResult, c.result()).set_output(true);
}

// ---- engines

fe::error_t Engines::propose(const Convolution& convolution, Search search) {
  using Mode = fe::HeurMode_t;
  using Note = fe::NumericalNote_t;
  const fe::error_t status = create_execution_plans(
      search == Search::quick ? std::vector{Mode::A, Mode::FALLBACK}
                              : std::vector{Mode::A, Mode::B, Mode::FALLBACK});
  if (status.is_bad()) return status;
  std::vector<Note> without = {Note::REDUCED_PRECISION_REDUCTION, Note::DOWN_CONVERT_INPUTS};
  if (convolution.filter.deterministic) without.push_back(Note::NONDETERMINISTIC);
  if (convolution.dtype == DType::f32 && !convolution.filter.tf32)
    without.push_back(Note::TENSOR_CORE);
  deselect_numeric_notes(without);
  if (search == Search::thorough)
    deselect_behavior_notes({fe::BehaviorNote_t::RUNTIME_COMPILATION});
  deselect_workspace_greater_than(convolution.filter.workspace_bytes);
  return {};
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
      if (address) addresses[tensor] = const_cast<void*>(address);
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
  mutable std::unordered_map<int64_t, void*> addresses = {};
};
}  // namespace

Proposals propose(const Convolution& convolution, Search search) {
  const auto engines = std::make_shared<Engines>(convolution);
  check(engines->validate(), "cuDNN does not take the graph");
  Proposals all;
  if (engines->build_operation_graph(handle()).is_bad() ||
      engines->propose(convolution, search).is_bad())
    return all;
  for (int64_t i = 0; i < engines->get_execution_plan_count(); ++i) {
    const auto build = [=, tf32 = convolution.runs_tf32()]() -> std::shared_ptr<const VendorPlan> {
      if (engines->build_plan_at_index(handle(), i).is_bad()) return nullptr;
      return std::make_shared<Engine>(engines, i, tf32);
    };
    all.push_back({"", build});
    check(engines->list().get_name_at_index(i, all.back().name), "cuDNN does not name an engine");
  }
  return all;
}

// Errors are not thrown: they mean "not supported".
Support support(const Convolution& convolution, const std::string& device_properties) {
  Engines engines(convolution);
  const auto device = std::make_shared<fe::DeviceProperties>();
  check(device->deserialize({device_properties.begin(), device_properties.end()}),
        "device properties");
  engines.set_device_properties(device);
  fe::error_t status = engines.validate();
  if (status.is_good()) status = engines.build_operation_graph();
  if (status.is_good()) status = engines.propose(convolution, Search::quick);
  if (status.is_bad()) return {.why_not = status.get_message()};
  for (int64_t i = 0; i < engines.get_execution_plan_count(); ++i)
    status = engines.list().check_support_at_index(i);
  // In spite of its name this returns the engines that are not barred.
  auto able = engines.list().get_barred_engine_configs();
  if (able.empty()) return {.why_not = status.get_message()};
  Support support{.engines = int64_t(able.size())};
  check(fe::detail::get_workspace_size(able[0], support.workspace_bytes), "workspace size");
  return support;
}

}  // namespace bellows::cudnn
