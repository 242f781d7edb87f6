#include "data/packed_twin.h"
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <mutex>
#include "core/crc32c.h"
#include "core/disk_cache.h"
#include "core/visitor.h"
#include "data/pack.h"
#include "data/packed.h"

namespace bellows {

namespace fs = std::filesystem;

namespace {

// Options as they are printed; of paths, what lies there.
class Describe : public Visitor {
 public:
  std::string text;
  bool of_files = false;

 protected:
  void option(const std::string& key, const Option& option, const char*) override {
    text += cat("\n", key, ": ", option.text);
    const std::string last = key.substr(key.rfind('.') + 1);
    std::error_code unreadable;
    if ((last != "root" && last != "folder") || !fs::exists(option.text, unreadable)) return;
    of_files = true;
    text += cat(" (", fs::absolute(option.text).string(), ", ", stamp(option.text), ")");
  }
  std::optional<size_t> list_size(const std::string&, size_t, const char*) override { return {}; }

 public:
  // Of a file, or of all below a folder, in whatever order they are found.
  static std::string stamp(const fs::path& path) {
    uint64_t files = 0, sum = 0;
    const auto add = [&](const fs::path& file) {
      struct stat status = {};
      if (stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
      ++files;
      sum += crc32c(bytes_of(cat(file.string(), " ", status.st_size, " ", status.st_mtim.tv_sec,
                                 ".", status.st_mtim.tv_nsec)));
    };
    add(path);
    constexpr auto options = fs::directory_options::follow_directory_symlink |
                             fs::directory_options::skip_permission_denied;
    std::error_code error;  // no folder, or one that cannot be read on
    for (fs::recursive_directory_iterator at(path, options, error), end; at != end;
         at.increment(error)) {
      add(at->path());
      // As data sets do: splits and classes may be links. Further down those may lead in circles.
      if (at.depth() > 1 && at->is_symlink(error)) at.disable_recursion_pending();
    }
    return fmt::format("{} files, {:x}", files, sum);
  }
};

Describe described(DatasetChoice choice) {
  Describe options;
  choice.visit_options(options);
  return options;
}

// One packer of a folder at a time. The kernel drops the lock of a dead process.
class Lock {
 public:
  explicit Lock(const Path& path)
      : file_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644)) {
    if (file_.get() < 0 || flock(file_.get(), LOCK_EX) != 0)
      fail(Exit::storage, path.string(), ": cannot be locked; XDG_CACHE_HOME is where caches lie");
  }

 private:
  Descriptor file_;
};

// Knows the files that it was packed from: those are what a user looks for.
class Twin : public Packed {
 public:
  Twin(const Path& folder, Split split, const DatasetChoice& choice)
      : Packed({.folder = folder}, split), choice_(choice), split_(split) {}

  std::string origin(int64_t index) const override {
    std::call_once(asked_, [this] { find_files(); });
    const std::string record = Packed::origin(index);
    return files_ ? cat(files_->origin(index), ", packed in ", record) : record;
  }

 private:
  // Not before a message needs them, and not if they are gone. What the program makes has none.
  void find_files() const {
    if (!described(choice_).of_files) return;
    try {
      files_ = choice_.make({split_});
      if (files_->size() != size()) files_ = nullptr;
    } catch (const Error&) {
    }
  }

  DatasetChoice choice_;
  Split split_;
  mutable std::once_flag asked_;
  mutable std::shared_ptr<const Dataset> files_;
};

}  // namespace

std::string source_of(const DatasetChoice& choice) {
  const Describe options = described(choice);
  std::string source = cat("name: ", choice.name(), options.text);
  if (!options.of_files) source += cat("\nprogram: ", Describe::stamp("/proc/self/exe"));
  return source;
}

// Null: there is none, or none that can be used.
static std::shared_ptr<const Twin> find(const Path& folder, Split split,
                                        const DatasetChoice& choice, const std::string& source,
                                        std::vector<std::string>& notes) {
  if (!fs::exists(shard_path(folder, split, 0))) return nullptr;
  try {
    auto found = std::make_shared<Twin>(folder, split, choice);
    if (found->source() == source) return found;
  } catch (const Error& error) {
    if (error.exit != Exit::data) throw;
    notes.push_back(cat("packed: not used: ", error.what()));
  }
  return nullptr;
}

static Path folder_of(const DatasetChoice& choice, const std::string& source) {
  return cache_folder() / "packed" /
         fmt::format("{}-{:08x}", choice.name(), crc32c(bytes_of(source)));
}

bool has_packed_twin(const DatasetChoice& choice) {
  if (choice.name() == "packed") return true;
  const std::string source = source_of(choice);
  const Path folder = folder_of(choice, source);
  std::vector<std::string> unsaid;
  const auto has = [&](Split split) { return find(folder, split, choice, source, unsaid); };
  return has(Split::train) && has(Split::test);
}

std::shared_ptr<const Dataset> packed_twin(const DatasetChoice& choice, Split split,
                                           OnDamaged on_damaged, std::vector<std::string>& notes) {
  if (choice.name() == "packed") return choice.make({split});
  const std::string source = source_of(choice);
  const Path folder = folder_of(choice, source);
  std::error_code error;  // the lock tells about it
  fs::create_directories(folder, error);
  const Lock lock(folder / ".lock");
  remove_temporaries(folder);
  if (auto found = find(folder, split, choice, source, notes)) {
    notes.push_back(cat("packed: ", found->size(), " samples, out of ", folder.string()));
    return found;
  }
  const PackedSplit made = pack(*choice.make({split}), split, source, folder,
                                {.on_damaged = on_damaged, .keep_places = true});
  notes.push_back(cat("packed: ", text_of(made), ", into ", folder.string()));
  return std::make_shared<Twin>(folder, split, choice);
}

}  // namespace bellows
