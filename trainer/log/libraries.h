// The shared libraries that this process has really loaded, and what they are for.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace bellows {

using Libraries = std::vector<std::string>;  // paths, each once, ascending

// The argument is for tests: a file that looks like /proc/self/maps.
Libraries loaded_libraries(const std::filesystem::path& maps = "/proc/self/maps");

// Jobs that one library of a process should do alone.
enum class Job { openmp, blas, allocator };
// File names of those that do it: {"libgomp.so.1"}.
std::vector<std::string> libraries_for(Job job, const Libraries& loaded);

}  // namespace bellows
