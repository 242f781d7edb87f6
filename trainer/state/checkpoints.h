// Checkpoints of a run folder: step_00001234.safetensors, the newest ckpt.keep of them, and
// best.safetensors with ckpt.best.
#pragma once
#include <future>
#include "core/tensor/safetensors.h"
#include "plan/run_options.h"

namespace bellows {

Path checkpoint_path(const Path& folder, int64_t step);
int64_t step_in(const Path& path);  // step in such a file name; -1: no run has named the file so
Path best_path(const Path& folder);

// Writes checkpoints. Not thread-safe: use it on the compute thread only.
class Checkpoints {
 public:
  // `folder` lies in the run folder. `keep_this`: never deleted, because the run started from it.
  Checkpoints(const Path& folder, const CkptOptions& options, const Path& keep_this = {});

  // Saves a checkpoint. It is complete and verified on return. With ckpt.async a background thread
  // writes a copy of the tensors, and a later poll() reports the end; without a thread or memory
  // for the copy it saves at once. The tensors may change after the return. Throws Error (exit 8)
  // unless ckpt.on_error is warn. Counter: ckpt.saves, also of save_best().
  void save(int64_t step, const NamedTensors& tensors, const Metadata& metadata) {
    save_as(checkpoint_path(folder_, step), tensors, metadata);
  }
  // As save(), but to best.safetensors, which replaces the previous one.
  void save_best(const NamedTensors& tensors, const Metadata& metadata) {
    save_as(best_path(folder_), tensors, metadata);
  }
  // Throws Error (exit 8) if the run folder is not at its place any more, or `folder` is a link.
  void check_folder() const;
  // Finishes a background save that has ended; throws its error.
  void poll();
  void wait();  // waits for the background save, then polls

  // Returns "saved <path>" for each verified file, and warnings. Clears the list.
  std::vector<std::string> take_messages() { return std::exchange(messages_, {}); }

 private:
  void save_as(const Path& path, const NamedTensors& tensors, const Metadata& metadata);
  template <class Attempt> void guarded(const Attempt& attempt);
  void finished();

  Path folder_;
  Descriptor run_;  // the run folder
  CkptOptions options_;
  Path keep_this_, writing_;
  std::future<void> background_;
  std::vector<std::string> messages_;
};

// Returns the checkpoints in `folder` that runs have written, highest step first.
std::vector<Path> list_checkpoints(const Path& folder);

struct Loaded {
  Path path;
  SafeTensors content;
};
// Reads the newest intact checkpoint. Adds a line to `messages` for each newer one that is damaged.
// Throws Error (exit 4) if none is left.
Loaded load_newest(const Path& folder, std::vector<std::string>& messages);
// Reads a checkpoint file, or the newest checkpoint of a run folder.
Loaded load_checkpoint(const Path& file_or_run, std::vector<std::string>& messages);

// Adds a warning to `messages` for each tensor that holds NaN or Inf. With ckpt.require_finite it
// throws Error (exit 5) instead.
void check_finite(const Path& file, const NamedTensors& tensors, const CkptOptions& options,
                  std::vector<std::string>& messages);

}  // namespace bellows
