#include "ops/chain/pointwise.h"
#include "autograd/amp.h"
#include "core/base/trace.h"
#include "core/device/parallel.h"
#include "core/tensor/walk.h"
#include "ops/base/apply.h"
#include "ops/base/map.h"
#include "ops/base/per_thread.h"
#include "ops/elementwise.h"
#include "ops/shape.h"

namespace bellows {

Chain::Chain(const std::string& text, std::vector<std::string> inputs)
    : text_(text), inputs_(std::move(inputs)), program_(parse_pointwise(text_, inputs_)) {}

std::shared_ptr<const Derivative> Chain::derivative_for(const std::vector<bool>& wanted) const {
  auto& made = derivatives_[wanted];
  if (!made) made = std::make_shared<Derivative>(derivative(program_, wanted));
  return made;
}

// ---- definition: op by op

template <class F> static Tensor run_op(const Tensor& a, const Tensor& b, const Step& step) {
  if constexpr (std::is_base_of_v<functors::Unary, F>) {
    return unary<F>(a);
  } else if constexpr (std::is_base_of_v<functors::Binary, F>) {
    return binary<F>(a, b);
  } else if constexpr (std::is_same_v<F, functors::Affine>) {
    return affine(a, step.a, step.b);
  }
  fail(Exit::internal, "pointwise: a derivative is not an op");
}
template <class... Fs>
static Tensor run_op(TypeList<Fs...>, const Step& step, const std::vector<Tensor>& results) {
  using Op = Tensor (*)(const Tensor&, const Tensor&, const Step&);
  static constexpr Op ops[] = {run_op<Fs>...};
  return ops[step.function](results[step.from[0]], results[step.from[1]], step);
}

static Tensor composed(const StepProgram& program, std::span<const Tensor> inputs,
                       const Shape& shape) {
  std::vector<Tensor> results;
  for (const Step& step : program.steps) {
    if (step.function == kInput) {
      results.push_back(expand(inputs[program.inputs[step.from[0]]], shape));
    } else if (step.function == kNumber) {
      results.push_back(full({}, step.a, inputs[0]));
    } else {
      results.push_back(run_op(functors::Steps(), step, results));
    }
  }
  return results[program.outputs[0]];
}

// ---- fused: one pass

static Shape common_shape(const Chain& chain, std::span<const Tensor> inputs) {
  CHECK(inputs.size() == chain.inputs().size(), "pointwise: ", inputs.size(), " tensors for the ",
        chain.inputs().size(), " inputs of  ", chain.text());
  Shape shape = inputs[0].shape();
  for (const Tensor& x : inputs) {
    CHECK(x.dtype() == inputs[0].dtype(), "pointwise: ", chain.inputs()[0], " is ",
          inputs[0].dtype(), " and ", chain.inputs()[&x - inputs.data()], " is ", x.dtype());
    shape = broadcast_shape(shape, x.shape(), "pointwise");
  }
  return shape;
}

// Runs the program on those of `all` inputs that it reads, and counts the bytes read and written.
static void run(const StepProgram& program, std::span<const Tensor> all,
                std::span<const Tensor> outputs) {
  Tensors inputs;
  for (const int k : program.inputs) {
    inputs.push_back(broadcast_to(all[k], outputs[0].shape()));
    trace::count<"pointwise.bytes">(int64_t(all[k].nbytes()));
  }
  for (const Tensor& y : outputs) trace::count<"pointwise.bytes">(int64_t(y.nbytes()));
  kernels::pointwise(inputs, program, outputs);
}

// Records y. Saves the inputs that the derivative reads, and only the shapes of the others.
static Tensor recorded(const Chain& chain, std::span<const Tensor> inputs, const Tensor& y) {
  std::vector<bool> wanted;
  std::vector<Shape> shapes;
  for (const Tensor& x : inputs) {
    wanted.push_back(needs_grad(x));
    shapes.push_back(x.shape());
  }
  const auto derivative = chain.derivative_for(wanted);
  std::vector<Saved> saved;
  for (int k = 0; k < int(inputs.size()); ++k)
    saved.emplace_back(std::ranges::count(derivative->program.inputs, k) ? inputs[k] : Tensor());
  // The gradients have the strides of y: all passes use one memory order.
  return record(
      "pointwise", y, inputs,
      [derivative, shapes, saved = std::move(saved), strides = y.strides()](const Tensor& dy) {
        Tensors inputs, outputs;
        for (const Saved& s : saved) inputs.push_back(s());
        inputs.push_back(dy);
        for (size_t i = 0; i < derivative->program.outputs.size(); ++i)
          outputs.emplace_back(dy.shape(), strides, dy.dtype(), dy.device());
        if (!outputs.empty()) run(derivative->program, inputs, outputs);
        Grads grads;
        for (size_t k = 0; k < shapes.size(); ++k) {
          const int from = derivative->gradient[k];
          const Tensor whole = from == Derivative::kNone ? Tensor()
                               : from == Derivative::kDy ? dy
                                                         : outputs[from];
          grads.push_back(whole.defined() ? kernels::sum_to(whole, shapes[k]) : whole);
        }
        return grads;
      });
}

Tensor pointwise(const Chain& chain, std::span<const Tensor> inputs_, Impl impl) {
  Tensors inputs;
  for (const Tensor& x : inputs_) inputs.push_back(amp::full(x));
  const Shape shape = common_shape(chain, inputs);
  if (impl == Impl::composed) return composed(chain.program(), inputs, shape);
  trace::count<"fuse.pointwise">();
  // The result has the memory order of the first input that is not stretched.
  const auto like = std::ranges::find(inputs, shape, &Tensor::shape);
  const Tensor y = like == inputs.end() ? empty(shape, inputs[0]) : empty_like(*like);
  run(chain.program(), inputs, {&y, 1});
  return will_record(std::span<const Tensor>(inputs)) ? recorded(chain, inputs, y) : y;
}

// ---- specs

// positive and distinct are those of OpSpec.
static AddOp spec(const char* text, const std::vector<std::string>& names,
                  std::vector<Shapes> cases, std::vector<Shapes> large,
                  std::vector<Shapes> rejects = {}, bool positive = false, bool distinct = false) {
  const auto chain = std::make_shared<Chain>(text, names);
  const auto run_as = [chain](Impl impl) {
    return [chain, impl](const Inputs& in) { return pointwise(*chain, in, impl); };
  };
  return AddOp({.name = "pointwise",
                .math = "a chain of elementwise functions, given as text",
                .cases = std::move(cases),
                .run = run_as(Impl::fused),
                .rejects = std::move(rejects),
                .variant = text,
                .large = std::move(large),
                .composed = run_as(Impl::composed),
                .rounds_each_step = true,
                .positive = positive,
                .distinct = distinct});
}
static const AddOp specs[] = {
    spec("relu(x * scale + shift)", {"x", "scale", "shift"},
         {{{7}, {7}, {}}, {{2, 3, 4, 5}, {3, 1, 1}, {3, 1, 1}}, {{2, 3}, {3}, {2, 1}}},
         {{{5, 3, 60, 61}, {3, 1, 1}, {3, 1, 1}}}, {{{2, 3}, {2}, {3}}}),
    spec("x * sigmoid(1.702 * x)", {"x"}, {{{}}, {{3, 5}}}, {{{3, 20000}}}),
    spec("tanh(a - b) + a", {"a", "b"}, {{{4, 1}, {3}}}, {{{300, 1}, {200}}}),
    spec("gelu(a) * tanh(b) - silu(a - 2) / (1 + exp(-b))", {"a", "b"},
         {{{2, 3}, {2, 3}}, {{2, 3, 4, 5}, {4, 1}}}, {{{70, 71}, {71}}}),
    spec("square(-a / 3) + mul(a, 2) - sub(2, div(b, 4)) + add(a, b)", {"a", "b"},
         {{{2, 3}, {2, 3}}, {{}, {4}}}, {}),
    spec("maximum(a, b) * abs(a - b) + minimum(a, b)", {"a", "b"},
         {{{7}, {7}}, {{2, 3, 4}, {3, 4}}}, {}, {}, false, true),
    spec("log(a) / sqrt(a + 1 / b)", {"a", "b"}, {{{7}, {7}}, {{3, 4}, {4}}}, {}, {}, true),
};

// ---- CPU: each block of 1024 elements goes through all steps before the next one. Its
// intermediate results stay in the L1 cache, and each step is one vectorized loop.

namespace {

constexpr int64_t kBlock = 1024;

template <class T>
void run_step(const Step& step, T* y, const T* a, const T* b, const T* c, int64_t n) {
  const Loops& loops = loops_of_step(step.function);
  const ApplyAffine scalars{step.a, step.b};  // the other functors have no state
  const Rows<T> block{.y = y, .x = {a, b, c}, .n = n};
  if constexpr (std::is_same_v<T, float>)
    loops.f32.dense(&scalars, block);
  else
    loops.f64.dense(&scalars, block);
}

// An input, block by block: a pointer into it if its memory order is y's, else a copy.
template <class T> class Source {
 public:
  Source(const Tensor& x, const Tensor& y)
      : walk_(y.shape(), {&y.strides(), &x.strides()}), x_(x.ptr<T>()) {}

  const T* block(int64_t begin, int64_t end, T* room) const {
    if (walk_.rows == 1 && walk_.steps[1] == 1) return x_ + begin;
    const int64_t length = walk_.length, step = walk_.steps[1];
    int64_t row = begin / length;
    T* to = room;
    walk_.for_rows(row, (end - 1) / length + 1, [&](const auto& at) {
      const int64_t first = std::max(begin - row * length, int64_t(0));
      const int64_t last = std::min(end - row * length, length);
      const T* const from = x_ + at[1];
      for (int64_t i = first; i < last; ++i) *to++ = from[i * step];
      ++row;
    });
    return room;
  }

 private:
  Walk<2> walk_;
  const T* x_;
};

// Computes elements [begin, end), at most kBlock, of the outputs in memory order. written: the
// output of each step, or null. results: filled with the address of each step's values, in the
// output or in room, which is scratch memory.
template <class T>
void run_block(const StepProgram& program, const std::vector<Source<T>>& sources,
               const std::vector<T*>& written, int64_t begin, int64_t end, T* room,
               std::vector<const T*>& results) {
  const int64_t n = end - begin;
  for (size_t s = 0; s < results.size(); ++s) {
    const Step& step = program.steps[s];
    T* const place = room + program.places[s] * kBlock;
    T* const y = written[s] ? written[s] + begin : place;
    if (step.function == kInput) {
      results[s] = sources[step.from[0]].block(begin, end, place);
      if (written[s]) std::copy_n(results[s], n, y);
    } else if (step.function == kNumber) {
      results[s] = std::fill_n(place, n, T(step.a)) - n;
    } else {
      run_step(step, y, results[step.from[0]], results[step.from[1]], results[step.from[2]], n);
      results[s] = y;
    }
  }
}

}  // namespace

static void pointwise_cpu(std::span<const Tensor> inputs, const StepProgram& program,
                          std::span<const Tensor> outputs) {
  const int64_t n = outputs[0].numel();
  if (n == 0) return;
  visit_float(inputs[0].dtype(), [&]<class T>(T) {
    std::vector<Source<T>> sources;
    for (const Tensor& x : inputs) sources.emplace_back(x, outputs[0]);
    std::vector<T*> written(program.steps.size());
    for (size_t i = 0; i < outputs.size(); ++i) written[program.outputs[i]] = outputs[i].ptr<T>();
    const PerThread<T> room(program.place_count * kBlock);
    parallel_for(n, kMapChunk, [&](int64_t begin, int64_t end) {
      std::vector<const T*> results(program.steps.size());
      for (int64_t b = begin; b < end; b += kBlock)
        run_block(program, sources, written, b, std::min(b + kBlock, end), room.mine(), results);
    });
  });
}
static const bool cpu = kernels::pointwise.on(Device::cpu, pointwise_cpu);

}  // namespace bellows
