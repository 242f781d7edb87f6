// The functions of CUPTI that we call, for .cu files.
#pragma once
#include <cupti.h>
#include "core/base/library.h"

namespace bellows {

struct CuptiLibrary {
  Library loaded{"libcupti.so.13", "times of the device are absent"};
  LIBRARY_FUNCTION(cuptiActivityRegisterTimestampCallback);
  LIBRARY_FUNCTION(cuptiSetThreadIdType);
  LIBRARY_FUNCTION(cuptiActivityRegisterCallbacks);
  LIBRARY_FUNCTION(cuptiActivityEnable);
  LIBRARY_FUNCTION(cuptiActivityDisable);
  LIBRARY_FUNCTION(cuptiActivityFlushAll);
  LIBRARY_FUNCTION(cuptiActivityGetNextRecord);
  LIBRARY_FUNCTION(cuptiActivityGetNumDroppedRecords);
  LIBRARY_FUNCTION(cuptiGetResultString);
};
// Opens libcupti.so.13 on first use. Returns null, and warns once, if it is missing.
const CuptiLibrary* cupti();

}  // namespace bellows
