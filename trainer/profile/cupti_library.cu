#include "core/base/library.h"
#include "trainer/profile/cupti_library.h"

namespace bellows {

const CuptiLibrary* cupti() {
  static const Library library("libcupti.so.13", "times of the device are absent");
  if (!library) return nullptr;
  static const CuptiLibrary functions = [] {
    CuptiLibrary f{};
    library.require("cuptiActivityRegisterTimestampCallback", f.set_clock);
    library.require("cuptiSetThreadIdType", f.set_thread_ids);
    library.require("cuptiActivityRegisterCallbacks", f.set_buffers);
    library.require("cuptiActivityEnable", f.enable);
    library.require("cuptiActivityDisable", f.disable);
    library.require("cuptiActivityFlushAll", f.flush);
    library.require("cuptiActivityGetNextRecord", f.next_record);
    library.require("cuptiActivityGetNumDroppedRecords", f.dropped);
    library.require("cuptiGetResultString", f.error_string);
    return f;
  }();
  return &functions;
}

}  // namespace bellows
