#include "trainer/state/copy_saved.h"
#include <set>
#include "core/tensor/copy.h"

namespace bellows {

TensorsByName by_name(const NamedTensors& tensors) {
  TensorsByName found;
  for (const auto& [name, tensor] : tensors) found[name] = tensor;
  return found;
}

std::string list_of(const char* title, const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < 8; ++i) text += (i ? ", " : "") + names[i];
  if (names.size() > 8) text += cat(" and ", names.size() - 8, " more");
  return names.empty() ? "" : cat(" ", title, ": ", text, ";");
}

namespace {
// Mismatches of names and shapes, collected so that one message shows all of them.
struct Mismatch {
  std::vector<std::string> missing, unexpected, shapes;

  void refuse(const std::string& what, const char* advice) const {
    std::string text = list_of("missing", missing) + list_of("unexpected", unexpected) +
                       list_of("of another shape or type", shapes);
    if (text.empty()) return;
    text.pop_back();
    fail(Exit::checkpoint, what, " does not fit the model:", text, advice);
  }
};
}  // namespace

void copy_saved(const NamedTensors& wanted, const TensorsByName& saved, const std::string& what,
                const char* advice) {
  Mismatch mismatch;
  std::set<std::string> known;
  for (const auto& [name, tensor] : wanted) {
    known.insert(name);
    const auto at = saved.find(name);
    if (at == saved.end()) {
      mismatch.missing.push_back(name);
    } else if (at->second.shape() != tensor.shape() || at->second.dtype() != tensor.dtype()) {
      mismatch.shapes.push_back(cat(name, " ", at->second.dtype(), at->second.shape(), ", not ",
                                    tensor.dtype(), tensor.shape()));
    }
  }
  for (const auto& [name, tensor] : saved)
    if (!known.contains(name)) mismatch.unexpected.push_back(name);
  mismatch.refuse(what, advice);
  for (const auto& [name, tensor] : wanted)
    copy_into(tensor.detach(), to(tensor.device(), saved.at(name)));
}

}  // namespace bellows
