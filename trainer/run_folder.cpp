#include "trainer/run_folder.h"
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include "core/file.h"
#include "trainer/checkpoints.h"
#include "trainer/system.h"

namespace bellows {

namespace fs = std::filesystem;

[[noreturn]] static void fail_storage(const fs::path& path, const char* call) {
  fail(Exit::storage, path.string(), ": ", call, ": ", std::strerror(errno),
       "; choose another folder with --run-dir");
}

static fs::path numbered(const fs::path& path, int n) {
  return n == 1 ? path : fs::path(path.string() + "-" + std::to_string(n));
}

fs::path newest_run(const fs::path& path) {
  int n = 1;
  while (fs::exists(numbered(path, n + 1))) ++n;
  return numbered(path, n);
}

// mkdir decides, not a look before it: two runs that start together get two folders.
static fs::path make_new(const fs::path& path) {
  for (int n = 1;; ++n) {
    const fs::path candidate = numbered(path, n);
    if (mkdir(candidate.c_str(), 0777) == 0) return candidate;
    if (errno != EEXIST) fail_storage(candidate, "mkdir");
  }
}

static void make_folders(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  errno = error.value();
  if (error) fail_storage(path, "mkdir");
}

// Only what a run writes, by its names.
static void remove_earlier(const fs::path& folder) {
  std::vector<fs::path> earlier = list_checkpoints(folder / "checkpoints");
  for (const char* name : {"plan.yaml", "env.json", "metrics.jsonl"})
    earlier.push_back(folder / name);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().filename().string().starts_with("events.out.tfevents."))
      earlier.push_back(entry.path());
  for (const fs::path& path : earlier) {
    fs::remove(path, error);
    errno = error.value();
    if (error) fail_storage(path, "remove");
  }
}

RunFolder::RunFolder(const fs::path& path, Existing existing) : path_(path) {
  if (path.has_parent_path()) make_folders(path.parent_path());
  if (existing == Existing::another) {
    path_ = make_new(path);
  } else {
    make_folders(path);
  }
  lock();
  if (existing == Existing::overwrite) remove_earlier(path_);
  make_folders(checkpoints());
  for (const fs::path& folder : {path_, checkpoints()}) remove_temporaries(folder);
}

// Writing its content shows that the folder can be written at all, before the first step.
void RunFolder::lock() {
  const fs::path file = path_ / ".lock";
  lock_ = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (lock_ < 0) fail_storage(file, "open");
  if (flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    char owner[128] = {};
    const bool known = read(lock_, owner, sizeof(owner) - 1) > 0;
    close(lock_);
    fail(Exit::usage, path_.string(), " is in use by ", known ? owner : "another run",
         "; wait for it, or choose another folder with --run-dir");
  }
  const std::string owner = cat("process ", getpid(), " on ", host_name());
  const bool noted = ftruncate(lock_, 0) == 0 && ::write(lock_, owner.data(), owner.size()) > 0;
  if (!noted) fail_storage(file, "write");
}

// The kernel drops the lock of a dead process, so the file itself may stay.
RunFolder::~RunFolder() { close(lock_); }

void RunFolder::write(const std::string& name, const std::string& text) const {
  write_file(path_ / name, bytes_of(text));
}

}  // namespace bellows
