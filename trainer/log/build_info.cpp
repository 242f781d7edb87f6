#include "trainer/log/system.h"

namespace bellows::build {

const char* const kVersion = BELLOWS_VERSION;
const char* const kCommit = BELLOWS_COMMIT;
const char* const kFlags = BELLOWS_FLAGS;
const char* const kYamlCppVersion = BELLOWS_YAML_CPP_VERSION;

}  // namespace bellows::build
