// What CMake knows of this program. In one small file, because the commit changes with each commit.
#pragma once

namespace bellows::build {

extern const char* const kVersion;         // "0.2.0"
extern const char* const kCommit;          // first 12 digits; "" outside of git
extern const char* const kFlags;           // of the compiler, without warnings
extern const char* const kYamlCppVersion;  // yaml-cpp's library does not tell its version

}  // namespace bellows::build
