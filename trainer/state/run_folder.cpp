#include "trainer/state/run_folder.h"
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include "trainer/state/checkpoints.h"

namespace bellows {

namespace fs = std::filesystem;

static constexpr const char* kAdvice = "; choose another folder with --run-dir";

[[noreturn]] static void fail_storage(const Path& path, const char* call) {
  fail(Exit::storage, path.string(), ": ", call, ": ", std::strerror(errno), kAdvice);
}

// A NUL would end the path before the number, so every numbered path would exist.
static Path numbered(const Path& path, int n) {
  CHECK(path.native().find('\0') == std::string::npos, path.native(),
        ": a path cannot contain NUL");
  return n == 1 ? path : Path(path.string() + "-" + std::to_string(n));
}

Path newest_run(const Path& path) {
  int n = 1;
  while (kind_of(numbered(path, n + 1), Exit::storage) != Kind::nothing) ++n;
  return numbered(path, n);
}

// mkdir decides without a check before it, so two runs that start together get two folders.
static Path make_new(const Path& path) {
  for (int n = 1;; ++n) {
    const Path candidate = numbered(path, n);
    if (mkdir(candidate.c_str(), 0777) == 0) return candidate;
    if (errno != EEXIST) fail_storage(candidate, "mkdir");
  }
}

// Returns the files in the folder that runs have written, judged by their names.
static std::vector<Path> written_by_runs(const Path& folder) {
  if (kind_of(folder, Exit::storage) != Kind::folder) return {};
  std::vector<Path> written = list_checkpoints(folder / "checkpoints");
  std::error_code error;
  for (const Path& path : {folder / "plan.yaml", folder / "env.json", folder / "metrics.jsonl",
                           folder / "end.json", best_path(folder / "checkpoints")})
    if (fs::exists(fs::symlink_status(path, error))) written.push_back(path);
  for (const Path& path : paths_in(folder, Exit::storage))
    for (const char* start : {"events.out.tfevents.", kFlightReport})
      if (path.filename().string().starts_with(start)) written.push_back(path);
  return written;
}

void refuse_used(const Path& path) {
  CHECK(written_by_runs(path).empty(), "--run-dir ", path.string(),
        ": already holds a run; continue it (--resume), replace it (--overwrite), or choose "
        "another folder");
}

RunFolder::RunFolder(const Path& path, IfExists existing) : path_(path) {
  if (path.has_parent_path()) make_folders(path.parent_path(), kAdvice);
  if (existing == IfExists::another)
    path_ = make_new(path);
  else
    make_folders(path, kAdvice);
  lock();
  if (existing == IfExists::refuse) refuse_used(path_);
  if (existing == IfExists::overwrite)
    for (const Path& earlier : written_by_runs(path_))
      if (unlink(earlier.c_str()) != 0 && errno != ENOENT) fail_storage(earlier, "unlink");
  make_folders(checkpoints(), kAdvice);
  for (const Path& folder : {path_, checkpoints()}) remove_temporaries(folder);
}

// Writing the lock shows before the first step that the folder is writable.
void RunFolder::lock() try {
  lock_.emplace(path_ / ".lock");
  CHECK(lock_->try_take(), path_.string(), " is in use by ", lock_->owner(), "; wait for it, or ",
        "choose another folder with --run-dir");
} catch (const Error& error) {
  if (error.exit == Exit::usage) throw;
  fail(error.exit, error.what(), kAdvice);
}

void RunFolder::write(const std::string& name, const std::string& text) const {
  write_file(path_ / name, bytes_of(text));
}

}  // namespace bellows
