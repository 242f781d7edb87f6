#include "trainer/state/checkpoints.h"
#include <fcntl.h>
#include <fmt/format.h>
#include <algorithm>
#include <cstdio>
#include "autograd/backward.h"
#include "core/base/trace.h"
#include "core/base/words.h"
#include "core/tensor/copy.h"

namespace bellows {

namespace fs = std::filesystem;

Path checkpoint_path(const Path& folder, int64_t step) {
  return folder / fmt::format("step_{:08}.safetensors", step);
}

Path best_path(const Path& folder) { return folder / "best.safetensors"; }

int64_t step_in(const Path& path) {
  int64_t step = -1;
  std::sscanf(path.filename().c_str(), "step_%18ld", &step);
  return step >= 0 && path.filename() == checkpoint_path("", step) ? step : -1;
}

std::vector<Path> list_checkpoints(const Path& folder) {
  if (kind_of(folder, Exit::checkpoint) == Kind::nothing) return {};
  std::vector<Path> all = paths_in(folder, Exit::checkpoint);
  std::erase_if(all, [](const Path& path) { return step_in(path) < 0; });
  std::ranges::sort(all, std::greater<>(), step_in);
  return all;
}

Loaded load_newest(const Path& folder, std::vector<std::string>& messages) {
  const std::vector<Path> all = list_checkpoints(folder);
  if (all.empty()) fail(Exit::checkpoint, folder.string(), ": no checkpoint");
  std::string newest;  // error of the newest damaged file
  for (const Path& path : all) {
    try {
      return {path, read_safetensors(path)};
    } catch (const Error& error) {
      if (newest.empty()) newest = error.what();
      messages.push_back(cat("warning: ", error.what(), "; falling back to the one before"));
    }
  }
  fail(Exit::checkpoint, folder.string(), ": no checkpoint is intact, ",
       count_of(std::ssize(all), "file"), " tried; ", newest);
}

Loaded load_checkpoint(const Path& file_or_run, std::vector<std::string>& messages) {
  if (kind_of(file_or_run, Exit::checkpoint) == Kind::folder)
    return load_newest(file_or_run / "checkpoints", messages);
  return {file_or_run, read_safetensors(file_or_run)};
}

void check_finite(const Path& file, const NamedTensors& tensors, const CkptOptions& options,
                  std::vector<std::string>& messages) {
  for (const auto& [name, tensor] : tensors) {
    if (!is_float(tensor.dtype()) || all_finite(cast(tensor, DType::f32))) continue;
    const std::string text = cat(file.string(), ": ", name, " holds values that are not finite");
    if (options.require_finite) fail(Exit::numeric, text, " (ckpt.require_finite is on)");
    messages.push_back("warning: " + text);
  }
}

Checkpoints::Checkpoints(const Path& folder, const CkptOptions& options, const Path& keep_this)
    : folder_(folder),
      run_(open(folder.parent_path().c_str(), O_PATH | O_CLOEXEC)),
      options_(options),
      keep_this_(keep_this) {}

void Checkpoints::check_folder() const {
  std::error_code gone;
  const Path run = folder_.parent_path(), then = cat("/proc/self/fd/", run_.get());
  if (!fs::equivalent(run, then, gone) || fs::is_symlink(folder_, gone))
    fail(Exit::storage, run.string(), ": the folder of the run was removed, moved or replaced, so ",
         "nothing more can be saved; a moved one still has its checkpoints, for --resume");
}

// Returns tensors that write_safetensors() accepts. Copies only those that are not contiguous or
// not on the host.
static NamedTensors on_host(const NamedTensors& tensors) {
  NamedTensors ready;
  for (const auto& [name, t] : tensors)
    ready.push_back(
        {name, contiguous(t.device() == Device::cpu ? t : to(Device::cpu, t.detach()))});
  return ready;
}

// Without a thread or memory for a copy of the tensors, this and later saves make training wait.
void Checkpoints::save_as(const Path& path, const NamedTensors& tensors, const Metadata& metadata) {
  wait();
  trace::count<"ckpt.saves">();
  writing_ = path;
  guarded([&] {
    check_folder();
    std::error_code ignored;  // if the folder is missing, writing reports it
    fs::create_directories(folder_, ignored);
    try {
      if (options_.async)
        background_ =
            write_safetensors_async(writing_, snapshot(tensors), metadata, options_.retries);
    } catch (const std::exception& error) {
      options_.async = false;
      messages_.push_back(
          cat("warning: async_checkpoint: no thread or no memory to save in the background (",
              error.what(), "); training waits for each save now"));
    }
    if (!options_.async) write_safetensors(writing_, on_host(tensors), metadata, options_.retries);
  });
}

template <class Attempt> void Checkpoints::guarded(const Attempt& attempt) {
  try {
    try {
      attempt();
    } catch (const Error&) {
      check_folder();  // the loss of the folder would explain the failure
      throw;
    }
    if (!background_.valid()) finished();
  } catch (const Error& error) {
    if (options_.on_error == OnSaveError::stop) throw;
    messages_.push_back(cat("WARNING: this run continues without its checkpoint: ", error.what()));
  }
}

void Checkpoints::poll() {
  using namespace std::chrono_literals;
  if (background_.valid() && background_.wait_for(0s) == std::future_status::ready) wait();
}

void Checkpoints::wait() {
  if (background_.valid()) guarded([this] { background_.get(); });
}

// Called after the new file has been read back; only then may an older one be deleted.
void Checkpoints::finished() {
  messages_.push_back("saved " + writing_.string());
  if (step_in(writing_) < 0) return;
  std::vector<Path> all = list_checkpoints(folder_);
  // Files of later steps belong to a run that was resumed from an earlier step. They are kept.
  std::erase_if(all, [&](const Path& path) { return step_in(path) > step_in(writing_); });
  for (size_t i = options_.keep; i < all.size(); ++i) {
    std::error_code error;
    if (fs::equivalent(all[i], keep_this_, error)) continue;
    fs::remove(all[i], error);
    if (error)
      messages_.push_back(
          cat("warning: ", all[i].string(), " cannot be deleted: ", error.message()));
  }
}

}  // namespace bellows
