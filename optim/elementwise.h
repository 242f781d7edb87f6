// An elementwise update rule is one file, optim/rules/x.cpp: its options, its formula, and an
// AddRule for each of its names. The file is compiled twice, for the CPU and, as a .cu that the
// build makes, for the GPU; so its functions are inline, in a struct or static. It has a functor
//   template <class T> struct X {
//     using Options = XOptions;                      // has lr and weight_decay
//     static constexpr const char* name = "x";       // for its kernels
//     enum : unsigned { momentum = own_pass(0), step = own_pass(1) };
//     using Sets = std::integer_sequence<unsigned, momentum | step>;  // what rule() can return
//     static UpdateRule rule(const XOptions&);       // its buffers and passes, but not run
//     HD X(const XOptions&, const StepValues&);
//     template <unsigned passes> HD void run(const Row<T>& row, int64_t i, T& d) const;
//   };
// When its passes run, d is the gradient of element i, unscaled and clipped, with weight decay.
#pragma once
#include "core/config/visitor.h"
#ifdef BELLOWS_CUDA_HALF
#include "optim/rule.cuh"
#else
#include "optim/rule_cpu.h"
#endif
