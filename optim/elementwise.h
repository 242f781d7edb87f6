// An elementwise update rule is one file, optim/rules/x.cpp: its options, its formula, and an
// AddRule for each of its names. The file is compiled twice, for the CPU and, as a .cu that the
// build makes, for the GPU; so its functions are inline, in a struct or static. It has a functor
//   template <class T> class X : public Elementwise<T> {
//    public:
//     using Options = XOptions;                      // has lr and weight_decay
//     static constexpr const char* name = "x";       // for its kernels
//     static UpdateRule rule(const XOptions&);       // its rate and buffers
//     // Calls fn(PassList<X::momentum, X::step>()), with the rule's own passes for these options.
//     template <class Fn> static void with_own_passes(const XOptions&, const Fn& fn);
//     HD X(const XOptions&, const StepValues&);
//     static HD void step(const X& k, const Element<T>& e);
//   };
// When its passes run, d is the gradient of element i, unscaled and clipped, with weight decay.
#pragma once
#include "core/config/visitor.h"
#ifdef BELLOWS_CUDA_HALF
#include "optim/rule.cuh"
#else
#include "optim/rule_cpu.h"
#endif
