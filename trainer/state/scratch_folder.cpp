#include "trainer/state/scratch_folder.h"
#include <fcntl.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace bellows {

// Marks a scratch folder: a run may also be named ab-something.
static constexpr const char* kMark = ".ab";

[[noreturn]] static void fail_scratch(const Path& path, const char* call) {
  fail(Exit::storage, "ab: ", path.native(), ": ", call, ": ", std::strerror(errno));
}

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

// Another process may lock the mark first and remove the folder; then this makes another one.
int ScratchFolder::make() {
  const Path runs = "runs";
  make_folders(runs);
  remove_dead(runs);
  while (true) {
    char name[] = "runs/ab-XXXXXX";
    if (!mkdtemp(name)) fail_scratch(name, "mkdtemp");
    path_ = name;
    Descriptor mark(open((path_ / kMark).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (mark.get() < 0) fail_scratch(path_, "open");
    const bool taken = !try_lock(mark.get()) && errno == EWOULDBLOCK;
    if (!taken && kind_of(path_ / kMark, Exit::storage) == Kind::file) return mark.release();
  }
}

ScratchFolder::~ScratchFolder() {
  std::error_code stays;
  std::filesystem::remove_all(path_, stays);
}

}  // namespace bellows
