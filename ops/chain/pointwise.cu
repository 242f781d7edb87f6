#include "ops/chain/pointwise.cuh"
#include "ops/chain/pointwise.h"

namespace bellows {

// One kernel for all programs: each thread interprets the steps for its elements. Slower than a
// kernel compiled for its chain (ops/vendor/nvrtc.cu), with the same memory accesses.
// Used where no runtime compiler is available.

namespace {

// A program as a kernel argument.
struct Code {
  struct Line {
    int8_t function;
    uint8_t from[3], to;  // places; of an input, its index
    double a, b;
  };
  int lines = 0;
  int place[kMostTensors] = {};  // place of each output
  Line line[kMostDerivedSteps];
};

Code encode(const StepProgram& p) {
  INVARIANT(p.steps.size() <= kMostDerivedSteps && p.place_count <= kMostPlaces, "a program of ",
            p.steps.size(), " steps and ", p.place_count, " places");
  Code code;
  for (size_t s = 0; s < p.steps.size(); ++s) {
    const Step& step = p.steps[s];
    Code::Line& line = code.line[code.lines++];
    line = {int8_t(step.function), {}, uint8_t(p.places[s]), step.a, step.b};
    for (int k = 0; k < 3; ++k)
      line.from[k] = uint8_t(step.function == kInput ? step.from[k] : p.places[step.from[k]]);
  }
  for (size_t k = 0; k < p.outputs.size(); ++k) code.place[k] = p.places[p.outputs[k]];
  return code;
}

template <class T> struct Interpreter {
  const Code& code;

  __device__ void operator()(const Acc<T>* x, Acc<T>* y) const {
    Acc<T> places[kMostPlaces];
    for (int l = 0; l < code.lines; ++l) {
      const Code::Line& line = code.line[l];
      Acc<T>& to = places[line.to];
      if (line.function == kInput) {
        to = x[line.from[0]];
      } else if (line.function == kNumber) {
        to = Acc<T>(T(Acc<T>(line.a)));
      } else {
        const bool affine = line.function == kAffine;
        const Acc<T> b = affine ? Acc<T>(line.a) : places[line.from[1]];
        const Acc<T> c = affine ? Acc<T>(line.b) : places[line.from[2]];
        to = Acc<T>(T(call_step(functors::Steps(), line.function, places[line.from[0]], b, c)));
      }
    }
    for (int k = 0; k < kMostTensors; ++k) y[k] = places[code.place[k]];
  }
};

// Blocks of 256 threads; each iteration moves 16 bytes per tensor and thread if alignment allows
// it, else one element.
template <class T>
__global__ void interpret(const __grid_constant__ PointwiseGrid grid,
                          const __grid_constant__ Code code) {
  run_all_elements<T, kMostTensors, kMostTensors>(grid, Interpreter<T>{code});
}

void pointwise_cuda(std::span<const Tensor> inputs, const StepProgram& program,
                    std::span<const Tensor> outputs) {
  if (outputs[0].numel() == 0) return;
  const PointwiseGrid grid = make_grid(inputs, outputs);
  visit_stored(outputs[0].dtype(),
               [&]<class T>(T) { launch(interpret<T>, threads_for(grid), grid, encode(program)); });
}

const bool gpu = kernels::pointwise.on(Device::cuda, pointwise_cuda);

}  // namespace
}  // namespace bellows
