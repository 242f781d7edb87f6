// in_f32<fn>: adapts a plain CPU kernel, which supports f32 and f64, to 16-bit tensors as well. It
// widens them to f32, and rounds the results and the written tensors back.
#pragma once
#include "core/tensor/copy.h"

namespace bellows {

namespace detail {

template <class Arg>
inline constexpr bool is_tensor = std::is_same_v<std::remove_cv_t<Arg>, Tensor>;

template <class Arg> DType low_dtype(const Arg& arg) {
  if constexpr (is_tensor<Arg>)
    if (arg.defined() && is_low(arg.dtype())) return arg.dtype();
  return DType::f32;
}

template <class Arg> decltype(auto) widened(Arg& arg) {
  if constexpr (is_tensor<Arg>)
    return low_dtype(arg) == DType::f32 ? Tensor(arg) : cast(arg, DType::f32);
  else
    return (arg);
}

template <class Arg> uint32_t version_of(const Arg& arg) {
  if constexpr (is_tensor<Arg>)
    return arg.defined() ? arg.storage()->version : 0;
  else
    return 0;
}

// Writes back only tensors whose version the kernel raised.
template <class Arg, class Wide>
void round_back(const Arg& arg, const Wide& wide, uint32_t version) {
  if constexpr (is_tensor<Arg>)
    if (low_dtype(arg) != DType::f32 && version_of(wide) != version) copy_into(arg, wide);
}

template <auto fn, class Signature = decltype(fn)> struct InF32;
template <auto fn, class R, class... Args> struct InF32<fn, R (*)(Args...)> {
  static R run(Args... args) {
    DType low = DType::f32;
    ((low = low == DType::f32 ? low_dtype(args) : low), ...);
    if (low == DType::f32) return fn(args...);
    return call(low, std::tuple<decltype(widened(args))...>(widened(args)...),
                std::forward_as_tuple(args...), std::index_sequence_for<Args...>());
  }
  template <class Wide, class Given, size_t... i>
  static R call([[maybe_unused]] DType low, const Wide& wide, [[maybe_unused]] const Given& given,
                std::index_sequence<i...>) {
    if constexpr (std::is_void_v<R>) {
      const uint32_t before[] = {version_of(std::get<i>(wide))...};
      fn(std::get<i>(wide)...);
      (round_back(std::get<i>(given), std::get<i>(wide), before[i]), ...);
    } else {
      return cast(fn(std::get<i>(wide)...), low);
    }
  }
};

}  // namespace detail

template <auto fn> inline constexpr auto in_f32 = &detail::InF32<fn>::run;

}  // namespace bellows
