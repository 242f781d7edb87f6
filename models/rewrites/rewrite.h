// Passes over a model's tree that keep what it computes and its names: call before name_all(). Each
// gives a line for each place that it changed.
#pragma once
#include "models/module/module.h"

namespace bellows {

// Residual blocks keep their input only, and run again in backward (autograd/recompute.h). Of up to
// `every` neighbours only the first one does: they run again together.
std::vector<std::string> recompute_blocks(Module& root, int64_t every);

// A convolution in front of a batch_norm, of which the mean takes its bias in.
struct NormedConv {
  Tensor weight, running_mean;
  bool has_bias = false;  // before drop_conv_bias()
};
std::vector<NormedConv> find_normed_convs(Module& root);

// A convolution in front of a batch_norm loses its bias, which that would take out again: its
// gradient is 0.
std::vector<std::string> drop_conv_bias(Module& root);

}  // namespace bellows
