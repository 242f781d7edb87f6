// Chooses the loops of conv_act_pool that are unrolled for a kernel size, on every device.
#pragma once

namespace bellows {

// Calls fn.operator()<S>() with the size of a square kernel if loops are unrolled for it, else 0.
template <class Sizes, class Fn>
__attribute__((always_inline)) inline void with_kernel(const Sizes& z, const Fn& fn) {
  if (z.KH == 5 && z.KW == 5)
    fn.template operator()<5>();
  else if (z.KH == 3 && z.KW == 3)
    fn.template operator()<3>();
  else
    fn.template operator()<0>();
}

}  // namespace bellows
