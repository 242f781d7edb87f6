// What the process runs on and is made of: for env.json and the start-up lines.
#pragma once
#include <string>
#include "core/base/json.h"

namespace bellows {

double wall_seconds();  // since 1970
// For --version: version and commit of this program, then a line for each library.
std::string version_text();
std::string host_name();

// Versions, compiler, CPU and its vector units, memory, commit, environment, and every shared
// library that this process has really loaded.
Json environment();

}  // namespace bellows
