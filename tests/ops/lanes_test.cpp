#include "ops/base/lanes.h"
#include <gtest/gtest.h>
#include <bit>
#include <vector>

namespace bellows {

// Calls body.operator()<L>() for every number of lanes that some CPU has, compiled for that CPU.
template <class Body> static void with_each_width(const Body& body) {
  body.template operator()<1>();
  body.template operator()<2>();
  body.template operator()<4>();
  body.template operator()<8>();
  if (lane_count<float>() == 16) in_avx512_lanes(body);
}

// Every value of a 16-bit type S: NaN with any payload, infinities and subnormals included.
template <class S> static std::vector<S> all_values() {
  std::vector<S> all(1 << 16);
  for (size_t i = 0; i < all.size(); ++i) all[i].bits = uint16_t(i);
  return all;
}

template <class S> static void expect_loads_convert() {
  const std::vector<S> all = all_values<S>();
  with_each_width([&]<int L>() __attribute__((always_inline)) {
    std::vector<float> loaded(all.size());
    for (size_t i = 0; i < all.size(); i += L) store<L>(&loaded[i], load<L>(&all[i]));
    for (size_t i = 0; i < all.size(); ++i)
      ASSERT_EQ(std::bit_cast<uint32_t>(loaded[i]), std::bit_cast<uint32_t>(float(all[i])))
          << L << " lanes of " << i;
  });
}
TEST(Lanes, LoadEvery16BitFloatAsItConverts) {
  expect_loads_convert<Bf16>();
  expect_loads_convert<F16>();
}

// Stores floats with every upper half, and lower halves on and beside the ties of both types.
template <class S> static void expect_stores_convert() {
  std::vector<float> values;
  for (uint32_t upper = 0; upper < 1 << 16; ++upper)
    for (const uint32_t lower :
         {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x2fffu, 0x3000u, 0x3001u, 0x7fffu, 0x8000u, 0x8001u,
          0xf000u, 0xf001u, 0xffffu, 0x5a5au, 0x6000u})
      values.push_back(std::bit_cast<float>(upper << 16 | lower));
  with_each_width([&]<int L>() __attribute__((always_inline)) {
    std::vector<S> stored(values.size());
    for (size_t i = 0; i < values.size(); i += L) store<L>(&stored[i], load<L>(&values[i]));
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(stored[i].bits, S(values[i]).bits)
          << L << " lanes of " << std::bit_cast<uint32_t>(values[i]);
  });
}
TEST(Lanes, Store16BitFloatsAsTheyConvert) {
  expect_stores_convert<Bf16>();
  expect_stores_convert<F16>();
}

}  // namespace bellows
