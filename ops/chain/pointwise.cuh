// Builds the kernel argument PointwiseGrid from a chain's tensors.
#pragma once
#include "core/tensor/map.cuh"
#include "ops/chain/pointwise_device.cuh"
#include "ops/chain/program.h"

namespace bellows {

static_assert(kMostTensors == kMostInputs + 1 && kMostAxes == kMaxRank);

// All inputs have the shape of the outputs, which are not empty.
inline PointwiseGrid make_grid(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  std::array<const Strides*, kMostTensors + 1> strides;
  strides.fill(&outputs[0].strides());
  for (size_t k = 0; k < inputs.size(); ++k) strides[k + 1] = &inputs[k].strides();
  const Walk<kMostTensors + 1> walk(outputs[0].shape(), strides);
  PointwiseGrid grid{
      .count = outputs[0].numel(), .inputs = int(inputs.size()), .outputs = int(outputs.size())};
  const int64_t bytes = size_of(outputs[0].dtype());
  bool packs = true;  // false once a tensor is misaligned
  for (int k = 0; k < grid.inputs; ++k) {
    auto& in = grid.in[k];
    in = {inputs[k].bytes(), true, {}};
    for (int axis = 0; axis < walk.rank(); ++axis) {
      in.step[walk.rank() - 1 - axis] = walk.step(axis)[k + 1];
      in.dense &= walk.step(axis)[k + 1] == walk.step(axis)[0];
    }
    if (!in.dense) grid.rank = walk.rank();
    packs &= !in.dense || fit_packs(in.data);
  }
  for (int axis = 0; axis < walk.rank(); ++axis)
    grid.size[walk.rank() - 1 - axis] = walk.size(axis);
  for (int k = 0; k < grid.outputs; ++k) {
    grid.out[k] = outputs[k].bytes();
    packs &= fit_packs(grid.out[k]);
  }
  if (grid.rank) packs &= grid.size[0] * bytes % 16 == 0;
  if (packs) grid.packs = grid.count * bytes / 16;
  return grid;
}

inline Grid threads_for(const PointwiseGrid& grid) {
  return grid_of(std::max<int64_t>(grid.packs ? grid.packs : grid.count, 1));
}

}  // namespace bellows
