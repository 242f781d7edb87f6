// The shared libraries that this process has loaded, and their purpose.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace bellows {

using Libraries = std::vector<std::string>;  // paths, unique, ascending

// Reads the libraries of this process. `maps` is replaced in tests by a file of the same format.
Libraries loaded_libraries(const std::filesystem::path& maps = "/proc/self/maps");

// Purposes that only one library of a process should serve.
enum class Job { openmp, blas, allocator };
// Returns the file names of those that serve `job`: {"libgomp.so.1"}.
std::vector<std::string> libraries_for(Job job, const Libraries& loaded);

}  // namespace bellows
