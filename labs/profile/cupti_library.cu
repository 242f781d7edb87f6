#include "labs/profile/cupti_library.h"

namespace bellows {

const CuptiLibrary* cupti() {
  static const CuptiLibrary functions{};
  return functions.loaded ? &functions : nullptr;
}

}  // namespace bellows
