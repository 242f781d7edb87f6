#include "core/base/json.h"
#include <nlohmann/json.hpp>

namespace bellows {

std::string to_line(const Json& object) {
  return object.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace bellows
