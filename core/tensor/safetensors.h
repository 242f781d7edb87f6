// The safetensors format: a length, a JSON header, the tensors' bytes. Written files carry
// checksums of their header and of every tensor in the metadata, which other readers ignore.
#pragma once
#include <future>
#include <map>
#include "core/base/file.h"
#include "core/tensor/named.h"

namespace bellows {

using Metadata = std::map<std::string, std::string>;

struct SafeTensors {
  NamedTensors tensors;  // in the file's order: the widest dtype first
  Metadata metadata;     // without the checksums
};

// Copies on the host, contiguous, whatever happens to the originals later. Compute thread only.
NamedTensors snapshot(const NamedTensors& tensors);

// As write_safetensors takes them: a copy on the host only of what is not there, or not contiguous.
NamedTensors on_host(const NamedTensors& tensors);

// Durable (core/base/file.h); failures are exit 8, after `retries` more attempts, each counted as
// ckpt.retries. Tensors on the host and contiguous. Bytes 0 to 7 are the header's length; tensors
// are aligned to the width of their dtype.
void write_safetensors(const Path& path, const NamedTensors& tensors, const Metadata& metadata = {},
                       int64_t retries = 0);
// The same on a thread of its own; throws std::system_error if there is none to be had. get()
// rethrows what went wrong, and the future's destructor waits. Counted as ckpt.async_saves.
[[nodiscard]] std::future<void> write_safetensors_async(const Path& path, NamedTensors snapshot,
                                                        Metadata metadata = {},
                                                        int64_t retries = 0);

// Any file of the format; checksums are verified if it has them. Nothing is believed before it was
// checked against the file's size, so a hostile file cannot make this allocate more than it holds.
// Failures are exit 4 and name the file with the tensor or the byte.
SafeTensors read_safetensors(const Path& path);

}  // namespace bellows
