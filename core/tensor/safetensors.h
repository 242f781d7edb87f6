// safetensors files: a length, a JSON header, the tensors' bytes. Files written here have checksums
// of the header and of each tensor in their metadata, which other readers ignore.
#pragma once
#include <future>
#include <map>
#include "core/base/file.h"
#include "core/tensor/tensor.h"

namespace bellows {

using Metadata = std::map<std::string, std::string>;

struct SafeTensors {
  NamedTensors tensors;  // in file order
  Metadata metadata;     // without the checksums
  // Dtypes that this program does not have, such as BOOL or F8_E4M3, by tensor name. Such a tensor
  // is in `tensors` as its bytes, u8 (1, n).
  std::map<std::string, std::string> foreign = {};
};

// Returns contiguous copies on the host, independent of the originals. Compute thread only.
NamedTensors snapshot(const NamedTensors& tensors);

// Writes a file durably (core/base/file.h). The tensors must be on the host and contiguous. Retries
// a failure up to `retries` times, each counted in ckpt.retries, then throws Error, exit 8. Bytes 0
// to 7 are the header's length; each tensor is aligned to the width of its dtype.
void write_safetensors(const Path& path, const NamedTensors& tensors, const Metadata& metadata = {},
                       int64_t retries = 0);
// Like write_safetensors(), on a thread of its own. Throws std::system_error if no thread can be
// started. get() rethrows errors, and the future's destructor waits. Counter: ckpt.async_saves.
[[nodiscard]] std::future<void> write_safetensors_async(const Path& path, NamedTensors snapshot,
                                                        Metadata metadata = {},
                                                        int64_t retries = 0);

// Reads any file of the format, and verifies its checksums if it has them. Checks sizes against the
// file's before use, so a hostile file cannot cause allocations larger than itself. Throws Error,
// exit 4, with the file and the tensor or byte.
SafeTensors read_safetensors(const Path& path);

}  // namespace bellows
