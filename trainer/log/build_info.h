// Version, commit and compiler flags, which CMake passes. A file of its own, so that a new commit
// compiles little.
#pragma once

namespace bellows::build {

extern const char* const kVersion;         // "0.2.0"
extern const char* const kCommit;          // first 12 digits; "" outside of git
extern const char* const kFlags;           // of the compiler, without warnings
extern const char* const kYamlCppVersion;  // yaml-cpp's library does not tell its version

}  // namespace bellows::build
