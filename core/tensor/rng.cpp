#include "core/tensor/rng.h"
#include <numeric>
#include "core/base/trace.h"
#include "core/device/parallel.h"
#include "core/tensor/copy.h"

namespace bellows {

static constexpr int64_t kChunk = 8192;

static void shuffle_serial(std::span<int64_t> order, const RngKey& key) {
  const Philox rng(key);
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = int64_t(order.size()) - 1; i > 0; --i)
    std::swap(order[i], order[rng.below(i + 1, i)]);
}

Tensor randperm(int64_t n, const RngKey& key, Device device, bool serial) {
  CHECK(n >= 0 && n < (int64_t(1) << 32), "randperm: n = ", n, " is not in [0, 2^32)");
  if (serial) {
    const Tensor order({n}, DType::i64);
    shuffle_serial(order.data<int64_t>(), key);
    return to(device, order);
  }
  trace::count<"rng.device_perms">();
  const Tensor order({n}, DType::i64, device);
  kernels::randperm(order, key);
  return order;
}

void fill_uniform(const Tensor& t, double low, double high, const RngKey& key) {
  t.raise_version();
  kernels::fill_random(t, false, low, high - low, key);
}
void fill_normal(const Tensor& t, double mean, double deviation, const RngKey& key) {
  t.raise_version();
  kernels::fill_random(t, true, mean, deviation, key);
}

// ---- CPU

static void randperm_cpu(const Tensor& order, const RngKey& key) {
  const Permutation permutation(order.numel(), key);
  const auto order_ = order.data<int64_t>();
  parallel_for(order.numel(), kChunk, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) order_[i] = static_cast<int64_t>(permutation(i));
  });
}

static void fill_each_index(const Tensor& t, auto value) {
  visit_stored(t.dtype(), [&]<class T>(T) {
    const auto t_ = t.data<T>();
    parallel_for(t.numel(), kChunk, [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i) t_[i] = T(Acc<T>(value(i)));
    });
  });
}

static void random_cpu(const Tensor& t, bool normal, double offset, double scale,
                       const RngKey& key) {
  const Philox rng(key);
  if (normal)
    fill_each_index(t, [&](int64_t i) { return offset + scale * rng.normal(i); });
  else
    fill_each_index(t, [&](int64_t i) { return offset + scale * rng.uniform(i); });
}

static const bool cpu = kernels::randperm.on(Device::cpu, randperm_cpu) &&
                        kernels::fill_random.on(Device::cpu, random_cpu);

}  // namespace bellows
