// The tensors of a file into those that have their names.
#pragma once
#include <map>
#include "core/tensor/named.h"

namespace bellows {

using TensorsByName = std::map<std::string, Tensor>;
TensorsByName by_name(const NamedTensors& tensors);

// " title: a, b;" with the first few of the names; "" for none.
std::string list_of(const char* title, const std::vector<std::string>& names);

// Copies each of `wanted` from a file that must hold these and no others. Throws Error: exit 4 with
// all names that are missing, unexpected or of another shape, before anything is changed; `advice`
// ends its line.
void copy_saved(const NamedTensors& wanted, const TensorsByName& saved,
                const std::string& what = "the checkpoint", const char* advice = "");

}  // namespace bellows
