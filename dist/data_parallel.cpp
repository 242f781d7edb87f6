#include "dist/data_parallel.h"
#include <cstring>
#include "autograd/record.h"
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"

namespace bellows {

void count_root_bytes(const ProcessGroup& group, size_t bytes) {
  if (group.rank() == 0) trace::count<"dist.root_bytes">(int64_t(bytes) * (group.world() - 1));
}

void count_wait(const std::function<void()>& wait) {
  const int64_t begin = trace::now_ns();
  wait();
  trace::count<"dist.exposed_wait_ns">(trace::now_ns() - begin);
}

void DataParallel::return_gradients() const {
  const int world = group_.world();
  for (const auto& [name, tensor] : parameters_) {
    const Tensor mine = flat(leaf_of(tensor).grad);
    const int64_t n = mine.numel();
    const bool root = group_.rank() == 0;
    const Tensor all = root ? Tensor({world * n}, mine.dtype(), mine.device()) : Tensor();
    count_wait([&, &name = name] { group_.gather(mine, all, 0, name); });
    count_root_bytes(group_, mine.nbytes());
    if (!root) continue;
    for (int rank = 1; rank < world; ++rank) add_into(mine, all.view({n}, {1}, rank * n));
    scale_each({&mine, 1}, 1.0 / world);
  }
}

// As whole words, because collectives take no bytes.
static Tensor words_of(const StepState& state) {
  static_assert(sizeof(StepState) % sizeof(int64_t) == 0);
  const Tensor words({sizeof(StepState) / sizeof(int64_t)}, DType::i64);
  std::memcpy(words.bytes(), &state, sizeof(state));
  return words;
}

void DataParallel::send_parameters(DeviceStepState& state) const {
  std::vector<Work> works;
  for (const auto& [name, tensor] : parameters_) {
    const Tensor values = flat(tensor.detach());
    works.push_back(group_.broadcast(values, 0, name));
    tensor.raise_version();
    count_root_bytes(group_, values.nbytes());
  }
  const Tensor words = to(state.device(), words_of(state.read()));
  works.push_back(group_.broadcast(words, 0, "step state"));
  count_wait([&] {
    for (const Work& work : works) work.wait();
  });
  StepState now;
  std::memcpy(&now, to(Device::cpu, words).bytes(), sizeof(now));
  state.write(now);
}

}  // namespace bellows
