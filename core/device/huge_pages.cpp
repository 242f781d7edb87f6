#include "core/device/huge_pages.h"
#include <sys/mman.h>
#include <cstdlib>
#include "core/base/trace.h"

namespace bellows {

void* allocate_huge(size_t bytes) {
  static trace::Counter& huge = trace::counter("alloc.huge_bytes");
  void* memory = nullptr;
  if (posix_memalign(&memory, kHugePage, bytes) != 0) return nullptr;
  // The rest stays in small pages: rounding up would waste up to 2 MiB per tensor.
  const size_t whole = bytes / kHugePage * kHugePage;
  if (madvise(memory, whole, MADV_HUGEPAGE) == 0) huge.add(static_cast<int64_t>(whole));
  return memory;
}

}  // namespace bellows
