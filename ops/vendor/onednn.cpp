#include "ops/vendor/onednn.h"
#include <dnnl_debug.h>
#include "core/base/trace.h"
#include "core/device/workers.h"
#include "core/tensor/copy.h"

namespace bellows::onednn {

std::string version() {
  const dnnl_version_t& v = *dnnl_version();
  return cat("oneDNN ", v.major, ".", v.minor, ".", v.patch);
}

void refuse(dnnl_status_t status, const char* what) {
  if (status == dnnl_out_of_memory)
    fail(Exit::memory, "out of cpu memory: oneDNN: ", what, "; try a smaller data.batch_size");
  fail(Exit::internal, running_kernel() ? running_kernel() : "onednn", ": ", what, ": ",
       dnnl_status2str(status));
}

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

static std::string implementation_of(const dnnl::primitive& primitive) {
  const char* name = nullptr;
  dnnl_primitive_desc_query(primitive.get_primitive_desc(), dnnl_query_impl_info_str, 0, &name);
  return name;
}

Plan::Plan(dnnl::primitive primitive)
    : primitive_(std::move(primitive)),
      implementation_(implementation_of(primitive_)),
      runs_(&trace::counter("onednn." + implementation_)) {}

dnnl::memory::desc Plan::desc_of(int argument) const {
  dnnl_memory_desc_t desc = nullptr;
  dnnl_memory_desc_clone(&desc, dnnl_primitive_desc_query_md(primitive_.get_primitive_desc(),
                                                             dnnl_query_exec_arg_md, argument));
  return desc;
}

void Plan::run(Bindings bindings) {
  for (const auto& [tensor, address] : bindings) {
    if (!address) continue;
    void* const at = const_cast<void*>(address);
    if (const auto found = args_.find(int(tensor)); found != args_.end())
      found->second.set_data_handle(at);
    else
      args_.emplace(int(tensor), dnnl::memory(desc_of(int(tensor)), engine(), at));
  }
  trace::count<"kernel.vendor_calls">();
  runs_->add();
  if (primitive_.get_kind() != dnnl::primitive::kind::reorder) trace::note_kernel(implementation_);
  rest_workers();
  checked([&] {
    static const dnnl::stream in_order(engine());
    primitive_.execute(in_order, args_);
  });
}

// oneDNN encodes an instruction set as bits; a later set includes the bits of earlier ones.
static bool has(dnnl::cpu_isa wanted) {
  static const int here = static_cast<int>(dnnl::get_effective_cpu_isa());
  return (here & static_cast<int>(wanted)) == static_cast<int>(wanted);
}

bool computes(DType dtype) {
  if (dtype == DType::bf16) return has(dnnl::cpu_isa::avx512_core_bf16);
  if (dtype == DType::f16) return has(dnnl::cpu_isa::avx512_core_fp16);
  return dtype == DType::f32;
}

dnnl::memory::data_type type_of(DType dtype) {
  using Type = dnnl::memory::data_type;
  INVARIANT(dtype == DType::f32 || is_low(dtype), "no type of oneDNN's products: ", dtype);
  return dtype == DType::bf16 ? Type::bf16 : dtype == DType::f16 ? Type::f16 : Type::f32;
}

dnnl::memory::desc desc(const Shape& shape, dnnl::memory::format_tag tag, DType dtype) {
  return {dnnl::memory::dims(shape.begin(), shape.end()), type_of(dtype), tag};
}

static std::optional<Plan> reorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to) {
  if (from == to) return {};
  return Plan(dnnl::reorder({engine(), from, engine(), to}));
}

Reorder::Reorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to)
    : reorder_(reorder(from, to)),
      from_bytes_(int64_t(from.get_size())),
      to_bytes_(int64_t(to.get_size())) {}

void Reorder::run(const Tensor& from, const Tensor& to) {
  trace::count<"layout.transposes">();
  reorder_->run({{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

Tensor Reorder::operator()(const Tensor& t) {
  if (!reorder_) return t;
  const Tensor copy({to_bytes_}, DType::u8);
  run(t, copy);
  return copy;
}

Tensor Reorder::room(const Tensor& y) const {
  return reorder_ ? Tensor({from_bytes_}, DType::u8) : y;
}
void Reorder::finish(const Tensor& room, const Tensor& y) {
  if (reorder_) run(room, y);
}

Reordered::Reordered(const dnnl::memory::desc& from, const dnnl::memory::desc& to)
    : reorder_(reorder(from, to)) {
  if (reorder_) copy_ = Tensor({int64_t(to.get_size())}, DType::u8);
}

const void* Reordered::of(const Tensor& t) {
  if (!reorder_) return t.bytes();
  const bool same = source_.defined() && source_.bytes() == t.bytes();
  if (!same || version_ != t.storage()->version) {
    reorder_->run({{DNNL_ARG_FROM, t}, {DNNL_ARG_TO, copy_}});
    source_ = t.detach();
    version_ = t.storage()->version;
  }
  return copy_.bytes();
}

}  // namespace bellows::onednn
