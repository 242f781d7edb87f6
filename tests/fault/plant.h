// Plants a fault in the program that this process becomes: see shim.c.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

namespace bellows {

// The nth call fails as `mode` says, with `error`; calls with files only below `folder`. The shim
// writes its calls and faults into `log`.
inline void plant(const std::string& call, int nth, const std::string& mode,
                  const std::filesystem::path& log, int error = 0, const std::string& folder = "") {
  setenv("LD_PRELOAD", FAULT_PRELOAD, 1);
  setenv("FAULT_CALL", call.c_str(), 1);
  setenv("FAULT_NTH", std::to_string(nth).c_str(), 1);
  setenv("FAULT_MODE", mode.c_str(), 1);
  setenv("FAULT_LOG", log.c_str(), 1);
  setenv("FAULT_ERRNO", std::to_string(error).c_str(), 1);
  setenv("FAULT_FOLDER", folder.c_str(), 1);
}

}  // namespace bellows
