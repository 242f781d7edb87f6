// NVRTC, NVIDIA's compiler as a library, wrapped once: CUDA source to machine code while the
// program runs. It needs no GPU, and the program starts without it.
//
// Source may include core/base/half.h, ops/base/functors.h and ops/chain/pointwise_device.cuh,
// whose text is part of the program, so nothing is asked of the machine's headers.
#pragma once
#include <string>

namespace bellows::nvrtc {

// Where there is no compiler, the first call says so in one line on stderr.
bool available();

// What is compiled for a device of that compute capability, 90 for 9.0: "sm_90", its machine code;
// if the compiler does not know that one, the PTX of the latest it knows, "compute_80"; "" if that
// is later than the device.
std::string target_for(int capability);

// Machine code, or PTX, which ends in 0. A source that does not compile is a bug of ours: exit 9,
// with the compiler's words.
std::string compile(const std::string& source, const std::string& target);

// All that can change what comes out of compile() but its arguments: the compiler's version and
// options, and the text of the headers.
std::string fingerprint();

}  // namespace bellows::nvrtc
