// Copies tensors of a file into tensors of the same names.
#pragma once
#include <map>
#include "core/tensor/tensor.h"

namespace bellows {

using TensorsByName = std::map<std::string, Tensor>;
TensorsByName by_name(const NamedTensors& tensors);

// Returns " title: a, b;" with the first eight names; "" for an empty list.
std::string list_of(const char* title, const std::vector<std::string>& names);

// Copies the saved tensors into `wanted`, on any device. `saved` must have the same names, shapes
// and dtypes, and no others. Throws Error (exit 4) with all names that are missing, unexpected or
// different, before anything is changed. `what` and `advice` are the start and end of that message.
void copy_saved(const NamedTensors& wanted, const TensorsByName& saved,
                const std::string& what = "the checkpoint", const char* advice = "");

}  // namespace bellows
