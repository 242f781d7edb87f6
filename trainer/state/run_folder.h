// The folder of a run: runs/<name>/ with plan.yaml, env.json, metrics.jsonl, events.out.tfevents.*
// and checkpoints/. One process at a time owns it, and nothing in it is overwritten unasked.
#pragma once
#include <optional>
#include "core/base/file_lock.h"

namespace bellows {

enum class Existing {
  another,
  refuse,
  keep,
  overwrite
};  // what to do about a folder that is there

class RunFolder {
 public:
  // another: a folder that exists is left alone, this run goes to <path>-2, <path>-3, ... refuse:
  // a folder in which a run has written is an error. keep: go on in it. overwrite: remove what an
  // earlier run wrote there, and nothing else. Throws Error: exit 2 if another run holds it or has
  // written there, 8 if it cannot be written.
  RunFolder(const std::filesystem::path& path, Existing existing);
  RunFolder(RunFolder&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  void write(const std::string& name, const std::string& text) const;

 private:
  void lock();

  std::filesystem::path path_;
  std::optional<FileLock> lock_;
};

// Throws Error, exit 2, if a run has written in that folder.
void refuse_used(const std::filesystem::path& path);
// The newest folder of that name: <path>-3 rather than <path>-2, that rather than <path>.
std::filesystem::path newest_run(const std::filesystem::path& path);

}  // namespace bellows
