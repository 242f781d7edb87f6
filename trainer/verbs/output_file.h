// Check of a file that a verb writes at its end, made before its work begins.
#pragma once
#include <string>
#include "core/base/file.h"

namespace bellows {

// Throws Error (exit 2) if `file` is a folder or lies in none. `where` begins the message. An empty
// path is not checked.
void check_place(const Path& file, const std::string& where);

}  // namespace bellows
