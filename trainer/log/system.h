// Describes the machine, the process, its libraries and this binary, for env.json, the start-up
// lines and doctor.
#pragma once
#include <string>
#include <vector>
#include "core/base/json.h"

namespace bellows {

// Passed by CMake to build_info.cpp, which compiles alone after each commit.
namespace build {
extern const char* const kVersion;         // "0.2.0"
extern const char* const kCommit;          // first 12 digits; "" outside of git
extern const char* const kFlags;           // flags of the compiler, without warnings
extern const char* const kYamlCppVersion;  // the library of yaml-cpp does not report its version
}  // namespace build

double wall_seconds();                       // since 1970-01-01 UTC
std::string date_text(double wall_seconds);  // "2026-11-25 23:40 UTC"
// Text for --version: version and commit of this program, then one line per library.
std::string version_text();
std::string host_name();

// Versions, compiler and its flags, OpenMP runtime, BLAS, allocator, CPU and its vector units,
// memory, commit, relevant environment variables, GPUs, and every shared library that this process
// has loaded. Names the host.
Json environment();

using Libraries = std::vector<std::string>;  // paths, unique, ascending
Libraries loaded_libraries();                // shared libraries that this process has loaded
// Names of libraries for one purpose; a process should load only one of them.
inline const std::vector<std::string> kOpenmp = {"libgomp", "libiomp5", "libomp"},
                                      kBlas = {"libopenblas", "libopenblasp", "libmkl",  "libblas",
                                               "libcblas",    "libblis",      "libatlas"},
                                      kAllocator = {"libjemalloc", "libtcmalloc", "libmimalloc",
                                                    "libtbbmalloc"};
// Returns the file names of the libraries that have one of these `names`: {"libgomp.so.1"}.
std::vector<std::string> libraries_named(const std::vector<std::string>& names,
                                         const Libraries& loaded);

}  // namespace bellows
