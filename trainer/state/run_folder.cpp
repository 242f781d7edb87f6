#include "trainer/state/run_folder.h"
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <functional>
#include "core/config/values.h"
#include "trainer/state/checkpoints.h"

namespace bellows {

namespace fs = std::filesystem;

static constexpr const char* kAdvice = "; choose another folder with --run-dir";

[[noreturn]] static void fail_storage(const std::string& path, const char* call,
                                      const char* advice = kAdvice) {
  fail(Exit::storage, path, ": ", call, ": ", std::strerror(errno), advice);
}

// A NUL would end the path before the number, so every numbered path would exist.
static Path numbered(const Path& path, int n) {
  CHECK(path.native().find('\0') == std::string::npos, path.native(),
        ": a path cannot contain NUL");
  return n == 1 ? path : Path(path.string() + "-" + std::to_string(n));
}

// Returns true for the first run of a plan whose name ends in a number, as in "resnet-50".
static bool is_first_of_its_name(const Path& folder) {
  const Path plan = folder / "plan.yaml";
  const std::string begin = cat("name: ", yaml(folder.filename().string()), " ");
  return kind_of(plan, Exit::storage) == Kind::file &&
         read_file(plan, 1 << 20, Exit::storage).starts_with(begin);
}

// Returns the numbers of the runs of that name, highest first. Some may be missing, because users
// delete runs.
static std::vector<int> find_numbers(const Path& path) {
  constexpr int kMost = 999'999;  // a larger one is a date
  const Path parent = path.has_parent_path() ? path.parent_path() : Path(".");
  if (kind_of(parent, Exit::storage) != Kind::folder) return {};
  std::vector<int> numbers;
  if (kind_of(path, Exit::storage) != Kind::nothing) numbers.push_back(1);
  const std::string start = path.filename().string() + "-";
  for (const Path& other : paths_in(parent, Exit::storage)) {
    const std::string name = other.filename();
    if (!name.starts_with(start)) continue;
    int n = 0;
    std::from_chars(name.data() + start.size(), name.data() + name.size(), n);
    const bool is_number = n > 1 && n <= kMost && name == start + std::to_string(n);
    if (is_number && !is_first_of_its_name(other)) numbers.push_back(n);
  }
  std::ranges::sort(numbers, std::greater<>());
  return numbers;
}

std::vector<Path> list_runs(const Path& path) {
  std::vector<Path> runs;
  for (const int n : find_numbers(path)) runs.push_back(numbered(path, n));
  return runs.empty() ? std::vector<Path>{path} : runs;
}

// mkdir decides, so two runs that start together get two folders.
static Path make_new(const Path& path) {
  const std::vector<int> numbers = find_numbers(path);
  for (int n = numbers.empty() ? 1 : numbers.front() + 1;; ++n) {
    const Path candidate = numbered(path, n);
    if (mkdir(candidate.c_str(), 0777) == 0) return candidate;
    if (errno != EEXIST) fail_storage(candidate, "mkdir");
  }
}

static constexpr const char* kWritten[] = {"plan.yaml",
                                           "env.json",
                                           "metrics.jsonl",
                                           "end.json",
                                           "flight_recorder.*",
                                           "pictures/step_*.png",
                                           "events.out.tfevents.*",
                                           "checkpoints/best.safetensors"};

// Returns the files in the folder that runs have written, judged by their names.
static std::vector<Path> written_by_runs(const Path& folder) {
  if (kind_of(folder, Exit::storage) != Kind::folder) return {};
  std::vector<Path> written = list_checkpoints(folder / "checkpoints");
  for (const Path inner : {"", "pictures", "checkpoints"}) {
    if (kind_of(folder / inner, Exit::storage) != Kind::folder) continue;
    for (const Path& path : paths_in(folder / inner, Exit::storage))
      if (std::ranges::any_of(kWritten, [&](const char* pattern) {
            return fnmatch(pattern, (inner / path.filename()).c_str(), 0) == 0;
          }))
        written.push_back(path);
  }
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
  bool taken = false;
  try {  // shows before the first step that the folder is writable
    taken = lock_.emplace(path_ / ".lock").try_take();
  } catch (const Error& error) {
    fail(error.exit, error.what(), kAdvice);
  }
  CHECK(taken, path_.string(), " is in use by ", lock_->owner(), "; wait for it, or ",
        "choose another folder with --run-dir");
  std::error_code none;
  for (const Path& inner : {checkpoints(), path_ / "pictures"})
    if (fs::is_symlink(inner, none))
      fail(Exit::storage, inner.string(), ": a link, and a run writes into its own folder only; ",
           "remove the link, or choose another folder with --run-dir");
  if (existing == IfExists::refuse) refuse_used(path_);
  if (existing == IfExists::overwrite) {
    for (const Path& earlier : written_by_runs(path_))
      if (unlink(earlier.c_str()) != 0 && errno != ENOENT) fail_storage(earlier, "unlink");
    rmdir((path_ / "pictures").c_str());  // fails if the folder has other files, which must stay
  }
  make_folders(checkpoints(), kAdvice);
  for (const Path& folder : {path_, checkpoints()}) remove_temporaries(folder);
}

void RunFolder::write(const std::string& name, const std::string& text) const {
  write_file(path_ / name, bytes_of(text));
}

// File that marks a scratch folder, because a run may be named ab-something, too.
static constexpr const char* kMark = ".ab";

// Removes folders of killed processes. On a file system without locks they are kept.
static void remove_dead(const Path& runs) {
  for (const Path& path : paths_in(runs, Exit::storage)) {
    if (!path.filename().native().starts_with("ab-")) continue;
    const Descriptor mark(open((path / kMark).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    std::error_code stays;
    if (mark.get() >= 0 && try_lock(mark.get())) std::filesystem::remove_all(path, stays);
  }
}

ScratchFolder::ScratchFolder() : lock_(make()) {}

// Makes another folder if a process locks the mark first and removes the folder.
int ScratchFolder::make() {
  const Path runs = "runs";
  make_folders(runs);
  remove_dead(runs);
  while (true) {
    char name[] = "runs/ab-XXXXXX";
    if (!mkdtemp(name)) fail_storage(cat("ab: ", name), "mkdtemp", "");
    path_ = name;
    Descriptor mark(open((path_ / kMark).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (mark.get() < 0) fail_storage(cat("ab: ", name), "open", "");
    const bool taken = !try_lock(mark.get()) && errno == EWOULDBLOCK;
    if (!taken && kind_of(path_ / kMark, Exit::storage) == Kind::file) return mark.release();
  }
}

ScratchFolder::~ScratchFolder() {
  std::error_code stays;
  std::filesystem::remove_all(path_, stays);
}

}  // namespace bellows
