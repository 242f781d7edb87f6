// The checkpoints of a run folder: step_00001234.safetensors, the newest few, and, under ckpt.best,
// best.safetensors.
#pragma once
#include <future>
#include "core/tensor/safetensors.h"
#include "plan/run_options.h"

namespace bellows {

// Writes them. One thread, the compute thread.
class Checkpoints {
 public:
  // `keep_this`: never deleted, because the run began with it.
  Checkpoints(const Path& folder, const CkptOptions& options, const Path& keep_this = {});

  // Complete and verified when it returns, or, with ckpt.async, when a later poll() says so, unless
  // there is no thread or no memory for that. The tensors may change as soon as it returns. Throws
  // Error, exit 8, unless ckpt.on_error is warn.
  void save(int64_t step, const NamedTensors& tensors, const Metadata& metadata);
  // The same as best.safetensors: one file, whose predecessor it replaces.
  void save_best(const NamedTensors& tensors, const Metadata& metadata);
  // Deals with a background save that has ended: its failure is thrown here.
  void poll();
  void wait();  // for the background save, then poll()

  // "saved <path>" for each that is verified, and warnings; emptied by the call.
  std::vector<std::string> take_messages() { return std::exchange(messages_, {}); }

 private:
  bool save_in_background(const NamedTensors& tensors, const Metadata& metadata);
  void save_as(const Path& path, const NamedTensors& tensors, const Metadata& metadata);
  template <class Attempt> void guarded(const Attempt& attempt);
  void finished();

  Path folder_;
  CkptOptions options_;
  Path keep_this_, writing_;
  std::future<void> background_;
  std::vector<std::string> messages_;
};

Path checkpoint_path(const Path& folder, int64_t step);
Path best_path(const Path& folder);
// Those of the folder that a run has written, newest first: by step, whatever their times say.
std::vector<Path> list_checkpoints(const Path& folder);

struct Loaded {
  Path path;
  SafeTensors content;
};
// The newest that is whole; a line to `messages` for each newer one that is not. Throws Error, exit
// 4, if there is none.
Loaded load_newest(const Path& folder, std::vector<std::string>& messages);
// That file, or the newest of that run folder.
Loaded load_checkpoint(const Path& file_or_run, std::vector<std::string>& messages);

// Of what a file brings: a warning to `messages` for each tensor that holds NaN or Inf, or, with
// ckpt.require_finite, an Error, exit 5.
void look_for_nonfinite(const Path& file, const NamedTensors& tensors, const CkptOptions& options,
                        std::vector<std::string>& messages);

}  // namespace bellows
