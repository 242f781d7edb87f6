#include "ops/elementwise.h"
#include "core/base/trace.h"
#include "ops/base/map.h"
#include "ops/base/work.h"
#include "ops/elementwise_kernels.h"

namespace bellows {

Tensor affine(const Tensor& x, double scale, double shift) {
  return record("affine", kernels::affine(x, scale, shift), {x}, [scale](const Tensor& dy) {
    return Grads{scale == 1 ? dy : kernels::affine(dy, scale, 0)};
  });
}

template <class F> static Tensor composed(const Tensor& a, const Tensor& b) {
  return unary<typename F::Last>(binary<typename F::First>(a, b));
}

Tensor add_relu(const Tensor& a, const Tensor& b, Impl impl) {
  using functors::AddRelu;
  if (impl == Impl::composed) return composed<AddRelu>(a, b);
  trace::count<"fuse.add_act">();
  return binary<AddRelu>(a, b);
}

// dy is the gradient of an operand of y's shape; that of a stretched operand is a sum of dy.
static OpWork work_of_sum(const RecordedOp& op) {
  OpWork work = single_pass(op);
  work.backward.bytes = 0;
  for (const Operand& x : op.inputs)
    if (x.grad && !(x.shape == op.y)) work.backward.bytes += result_bytes(op) + x.bytes();
  return work;
}
static const AddWork sum_work("add", work_of_sum);
// One gradient serves both operands: dy where y is positive.
static const AddWork sum_relu_work("add_relu", [](const RecordedOp& op) {
  OpWork work = work_of_sum(op);
  work.backward.bytes += 3 * result_bytes(op);
  return work;
});

static const AddOp affine_spec({.name = functors::Affine::name,
                                .math = functors::Affine::math,
                                .cases = {{{1}}, {{7}}, {{2, 3, 4, 5}}},
                                .run = [](const Inputs& in) { return affine(in[0], -1.5, 2); },
                                .elementwise = true});

// ---- registration of every functor as an op

template <class F> static void add_unary() {
  AddOp({.name = F::name,
         .math = F::math,
         .cases = {{{1}}, {{7}}, {{2, 3, 4, 5}}},
         .run = [](const Inputs& in) { return unary<F>(in[0]); },
         .large = {{{3, 20000}}},
         .positive = F::positive,
         .keep_from_zero = F::keep_from_zero,
         .elementwise = true});
}

template <class F> static OpFn composed_twin() {
  if constexpr (F::shared)
    return [](const Inputs& in) { return composed<F>(in[0], in[1]); };
  else
    return nullptr;
}

template <class F> static void add_binary() {
  AddOp({.name = F::name,
         .math = F::math,
         .cases = {{{7}, {7}},
                   {{2, 3, 4, 5}, {2, 3, 4, 5}},
                   {{2, 3, 4, 5}, {3, 1, 1}},
                   {{4}, {3, 1}},
                   {{2, 1, 3}, {}}},
         .run = [](const Inputs& in) { return binary<F>(in[0], in[1]); },
         .rejects = {{{2, 3}, {2}}, {{4, 1, 3}, {2, 5, 3}}},
         .large = {{{3, 20000}, {20000}}},
         .composed = composed_twin<F>(),
         .positive = F::positive,
         .distinct = F::distinct,
         .elementwise = true});
}

static const bool specs = [] {
  for_each(functors::UnaryOps(), []<class F>(TypeList<F>) { add_unary<F>(); });
  for_each(functors::BinaryOps(), []<class F>(TypeList<F>) { add_binary<F>(); });
  for_each(functors::SharedOps(), []<class F>(TypeList<F>) { add_binary<F>(); });
  return true;
}();
static const bool cpu = add_kernels(Device::cpu);

template <class... Fs> static const Loops& loops_in(TypeList<functors::Affine, Fs...>, int step) {
  static constexpr const Loops* loops[] = {&kLoops<ApplyAffine, 1>,
                                           &kLoops<Apply<Fs>, Fs::arity>...};
  return *loops[step];
}
const Loops& loops_of_step(int step) { return loops_in(functors::Steps(), step); }

}  // namespace bellows
