// The folder of a run: runs/<name>/ with plan.yaml, env.json, metrics.jsonl, events.out.tfevents.*,
// end.json and checkpoints/; after a failure of several ranks flight_recorder.<rank>.txt. One
// process at a time owns it. Existing files are overwritten only on request.
#pragma once
#include <optional>
#include "core/base/file_lock.h"

namespace bellows {

enum class IfExists { another, refuse, keep, overwrite };  // action for a folder that exists

inline constexpr const char* kFlightReport = "flight_recorder.";  // followed by the rank

class RunFolder {
 public:
  // another: leaves an existing folder alone and uses <path>-2, <path>-3, ... refuse: throws if a
  // run has written there. keep: continues in it. overwrite: removes files that an earlier run
  // wrote there, and nothing else. Throws Error: exit 2 if another run owns the folder or (refuse)
  // has written there, 8 if it is not writable.
  RunFolder(const Path& path, IfExists existing);
  RunFolder(RunFolder&&) = delete;

  const Path& path() const { return path_; }
  Path checkpoints() const { return path_ / "checkpoints"; }
  void write(const std::string& name, const std::string& text) const;

 private:
  void lock();

  Path path_;
  std::optional<FileLock> lock_;
};

// Throws Error (exit 2) if a run has written in that folder.
void refuse_used(const Path& path);
// Returns the folder with the highest number: <path>-3 before <path>-2 before <path>.
Path newest_run(const Path& path);

}  // namespace bellows
