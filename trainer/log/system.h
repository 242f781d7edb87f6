// Describes the machine, the process and this binary, for env.json and the start-up lines.
#pragma once
#include <string>
#include "core/base/json.h"

namespace bellows {

double wall_seconds();  // since 1970-01-01 UTC
// Text for --version: version and commit of this program, then one line per library.
std::string version_text();
std::string host_name();

// Versions, compiler, CPU and its vector units, memory, commit, relevant environment variables,
// GPUs, and every shared library that this process has loaded. Names the host.
Json environment();

}  // namespace bellows
