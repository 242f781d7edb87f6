// Counter-based random numbers. Each is a function of (seed, purpose, site, step, index), so it is
// the same for any number of threads, workers and ranks, on every device, and after a resume.
// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11 (Philox4x32-10).
#pragma once
#include <cmath>
#include <cstdint>
#include "core/base/half.h"

namespace bellows {

enum class Purpose : uint32_t { init, dropout, shuffle, augment, dataset, test, op };

// Identifies a stream of random numbers. `step` is an epoch, a step or 0; `site` is the hash of a
// module path (core/base/module_path.h) or 0.
struct RngKey {
  uint64_t seed = 0;
  Purpose purpose = Purpose::test;
  uint64_t site = 0;
  uint64_t step = 0;
};

struct Philox {
  uint32_t key0, key1, step0, step1;

  HD explicit Philox(const RngKey& k) {
    // Two rounds of mixing fold seed, purpose and site into the 64-bit key.
    uint64_t key = k.seed * 0x9e3779b97f4a7c15 + static_cast<uint64_t>(k.purpose);
    key = (key ^ (key >> 32)) * 0xd6e8feb86659fd93 ^ k.site;
    key = (key ^ (key >> 32)) * 0xd6e8feb86659fd93;
    key ^= key >> 32;
    key0 = uint32_t(key), key1 = uint32_t(key >> 32);
    step0 = uint32_t(k.step), step1 = uint32_t(k.step >> 32);
  }

  struct Four {
    uint32_t v[4];
  };
  // Ten rounds over a counter of four words, as in the paper.
  HD static Four rounds(Four counter, uint32_t k0, uint32_t k1) {
    auto [c0, c1, c2, c3] = counter.v;
    for (int round = 0; round < 10; ++round) {
      const uint64_t a = uint64_t(0xd2511f53) * c0, b = uint64_t(0xcd9e8d57) * c2;
      c0 = uint32_t(b >> 32) ^ c1 ^ k0;
      c1 = uint32_t(b);
      c2 = uint32_t(a >> 32) ^ c3 ^ k1;
      c3 = uint32_t(a);
      k0 += 0x9e3779b9, k1 += 0xbb67ae85;
    }
    return {{c0, c1, c2, c3}};
  }
  // Returns the index-th block of four 32-bit random numbers.
  HD Four operator()(uint64_t index) const {
    return rounds({{uint32_t(index), uint32_t(index >> 32), step0, step1}}, key0, key1);
  }
  HD uint32_t bits(uint64_t index) const { return (*this)(index / 4).v[index % 4]; }
  HD float uniform(uint64_t index) const { return to_uniform(bits(index)); }  // in [0, 1)
  // Returns an integer in [0, n). The modulo bias is negligible, since n is far below 2^32.
  HD uint64_t below(uint64_t n, uint64_t index) const { return uint64_t(bits(index)) * n >> 32; }
  // Returns a standard normal value (Box-Muller transform).
  HD float normal(uint64_t index) const {
    const Four f = (*this)(index / 2);
    const double u = (f.v[index % 2 * 2] + 1.0) * 0x1p-32, angle = f.v[index % 2 * 2 + 1] * 0x1p-32;
    return static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * angle));
  }
  HD static float to_uniform(uint32_t bits) { return (bits >> 8) * 0x1p-24f; }
};

// Random permutation of [0, n), n <= 2^32, whose i-th element is computed independently of the
// others. A Feistel network permutes the next even power of two and is repeated until the result is
// below n. Equal on every device and thread count. The network has at least six bits: with fewer,
// some orders of a short list come up too often.
struct Permutation {
  static constexpr int kRounds = 6;
  uint64_t n;
  int half_bits = 3;
  uint32_t keys[kRounds];

  HD Permutation(uint64_t n, const RngKey& key) : n(n) {
    while (half_bits < 16 && (uint64_t(1) << (2 * half_bits)) < n) ++half_bits;
    const Philox rng(key);
    for (int round = 0; round < kRounds; ++round) keys[round] = rng.bits(round);
  }
  HD uint64_t operator()(uint64_t i) const {
    do i = shuffle_once(i);
    while (i >= n);
    return i;
  }

 private:
  HD uint64_t shuffle_once(uint64_t i) const {
    const uint32_t mask = (uint32_t(1) << half_bits) - 1;
    uint32_t left = uint32_t(i >> half_bits), right = uint32_t(i) & mask;
    for (const uint32_t key : keys) {
      uint32_t mixed = (right ^ key) * 0x85ebca6b;
      mixed = (mixed ^ (mixed >> 15) ^ (key >> 16)) * 0xc2b2ae35;
      const uint32_t next = left ^ ((mixed ^ (mixed >> 16)) & mask);
      left = right;
      right = next;
    }
    return uint64_t(left) << half_bits | right;
  }
};

}  // namespace bellows
