// Passes over a model's tree that keep its function and the names of the remaining parameters. Call
// before name_all(). Each rewriting pass returns one line per change.
#pragma once
#include "models/module/module.h"

namespace bellows {

// Makes residual blocks recompute their activations in backward (autograd/recompute.h). Up to
// `every` adjacent blocks form one segment, which keeps only its input.
std::vector<std::string> recompute_blocks(Module& root, int64_t every);

// A convolution followed by a batch_norm. The norm's running mean includes the convolution's bias.
struct NormedConv {
  Tensor weight, running_mean;
  bool has_bias = false;  // before drop_conv_bias()
};
std::vector<NormedConv> find_normed_convs(Module& root);

// Removes the bias of each convolution followed by a batch_norm: subtracting the mean cancels the
// bias, and its gradient is 0.
std::vector<std::string> drop_conv_bias(Module& root);

}  // namespace bellows
