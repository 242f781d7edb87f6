// The folder of a run: runs/<name>/ with plan.yaml, env.json, metrics.jsonl, events.out.tfevents.*,
// end.json, pictures/ and checkpoints/; after a failure of several ranks
// flight_recorder.<rank>.txt. One process at a time owns it. Existing files are overwritten only on
// request.
#pragma once
#include <optional>
#include <vector>
#include "core/base/file.h"

namespace bellows {

enum class IfExists { another, refuse, keep, overwrite };  // action for a folder that exists

inline constexpr const char* kFlightReport = "flight_recorder.";  // followed by the rank

class RunFolder {
 public:
  // another: leaves existing folders alone and uses the number after the highest, beginning with
  // <path>, <path>-2. refuse: throws if a run has written there. keep: continues in it. overwrite:
  // removes files that an earlier run wrote there, and nothing else. Throws Error: exit 2 if
  // another run owns the folder or (refuse) has written there, 8 if it is not writable, or if a
  // folder in it is a link.
  RunFolder(const Path& path, IfExists existing);
  RunFolder(RunFolder&&) = delete;

  const Path& path() const { return path_; }
  Path checkpoints() const { return path_ / "checkpoints"; }
  void write(const std::string& name, const std::string& text) const;

 private:
  Path path_;
  std::optional<FileLock> lock_;
};

// Throws Error (exit 2) if a run has written in that folder.
void refuse_used(const Path& path);
// Returns the folders of the runs of that name, highest number first: <path>-3, <path>-2, <path>.
// <path> alone if there is none. Throws Error (exit 8) if the parent folder cannot be listed.
std::vector<Path> list_runs(const Path& path);

// runs/ab-XXXXXX: the folder for files of the arms of `ab`. The destructor removes it. A folder
// whose process was killed is removed by the next ScratchFolder.
class ScratchFolder {
 public:
  ScratchFolder();  // throws Error (exit 8)
  ~ScratchFolder();
  ScratchFolder(ScratchFolder&&) = delete;
  std::string operator/(const char* name) const { return (path_ / name).string(); }

 private:
  int make();  // returns the descriptor of the locked mark

  Path path_;        // before lock_: its initializer sets path_
  Descriptor lock_;  // lock on the mark; the kernel releases it when the process ends
};

}  // namespace bellows
