// The functions of CUPTI that we call, for .cu files.
#pragma once
#include <cupti.h>

namespace bellows {

struct CuptiLibrary {
  decltype(&::cuptiActivityRegisterTimestampCallback) set_clock;
  decltype(&::cuptiSetThreadIdType) set_thread_ids;
  decltype(&::cuptiActivityRegisterCallbacks) set_buffers;
  decltype(&::cuptiActivityEnable) enable;
  decltype(&::cuptiActivityDisable) disable;
  decltype(&::cuptiActivityFlushAll) flush;
  decltype(&::cuptiActivityGetNextRecord) next_record;
  decltype(&::cuptiActivityGetNumDroppedRecords) dropped;
  decltype(&::cuptiGetResultString) error_string;
};
// Opens libcupti.so.13 on first use. Returns null, and warns once, if it is missing.
const CuptiLibrary* cupti();

}  // namespace bellows
