#include "data/packed/packed_cache.h"
#include <fmt/format.h>
#include <sys/stat.h>
#include <mutex>
#include "core/base/crc32c.h"
#include "core/base/disk_cache.h"
#include "core/base/file.h"
#include "core/base/output.h"
#include "core/base/trace.h"
#include "core/base/words.h"
#include "core/config/values.h"
#include "data/packed/pack.h"
#include "data/packed/packed.h"

namespace bellows {

namespace fs = std::filesystem;

namespace {

// Begins each note of the original in a shard's `source`, after the text of source_of().
constexpr std::string_view kNote = "\nnote: ";

// Number of files and checksum of their paths, sizes and times: of files, and of all files and
// folders below a folder. Independent of the order in which they are found. A folder's time changes
// if something in it is renamed, so files that change places are noticed even if their sizes and
// times are equal. ctime also changes with chmod and chown, which may make a file readable.
std::string stamp(const Sources& paths) {
  uint64_t files = 0, sum = 0;
  const auto add = [&](const fs::path& file) {
    struct stat status = {};
    if (stat(file.c_str(), &status) != 0) return;
    const bool regular = S_ISREG(status.st_mode);
    if (!regular && !S_ISDIR(status.st_mode)) return;
    files += regular;
    sum += crc32c(bytes_of(cat(file.string(), " ", regular ? status.st_size : -1, " ",
                               status.st_mtim.tv_sec, ".", status.st_mtim.tv_nsec, " ",
                               status.st_ctim.tv_sec, ".", status.st_ctim.tv_nsec)));
  };
  constexpr auto options = fs::directory_options::follow_directory_symlink |
                           fs::directory_options::skip_permission_denied;
  for (const fs::path path : paths) {
    add(path);
    std::error_code error;  // not a folder, or not fully readable
    for (fs::recursive_directory_iterator at(path, options, error), end; at != end;
         at.increment(error)) {
      add(at->path());
      // As data sets do: classes may be links. Links further down may form cycles.
      if (at.depth() > 0 && at->is_symlink(error)) at.disable_recursion_pending();
    }
  }
  return fmt::format("{} files, {:x}", files, sum);
}

// Packed copy of a data set, which it calls the original. origin() names the original's files, and
// damaged records are read from there.
class CachedCopy : public Packed {
 public:
  CachedCopy(const Path& folder, Split split, const DatasetChoice& choice, bool of_files)
      : Packed({.folder = folder}, split), choice_(choice), split_(split), of_files_(of_files) {}

  Sample at_least(int64_t index, const ViewOf& wanted, Scratch& scratch) const override {
    trace::count<"data.twin_reads">();
    try {
      return Packed::at_least(index, wanted, scratch);
    } catch (const DamagedRecord& damage) {
      return instead(index, damage).at_least(index, wanted, scratch);
    }
  }
  std::optional<EncodedSample> encoded(int64_t index) const override {
    trace::count<"data.twin_reads">();
    try {
      return Packed::encoded(index);
    } catch (const DamagedRecord& damage) {
      return instead(index, damage).encoded(index);
    }
  }
  std::string origin(int64_t index) const override {
    const std::string record = Packed::origin(index);
    const Dataset* const files = of_files_ ? original() : nullptr;
    return files ? cat(files->origin(index), ", packed in ", record) : record;
  }
  std::vector<std::string> notes() const override {
    std::vector<std::string> notes;
    std::string_view rest = source();
    for (size_t at; (at = rest.rfind(kNote)) != rest.npos; rest = rest.substr(0, at))
      notes.emplace(notes.begin(), rest.substr(at + kNote.size()));
    return notes;
  }
  // True if it was packed from a data set with that source_of().
  bool is_of(std::string_view described) const {
    const std::string_view all = source();
    return all.starts_with(described) &&
           (all.size() == described.size() || all.substr(described.size()).starts_with(kNote));
  }

 private:
  // Opens the original on first use. Null if it is gone or has changed.
  const Dataset* original() const {
    std::call_once(asked_, [this] {
      try {
        if (is_of(source_of(choice_))) original_ = choice_.make({split_});
        if (original_ && original_->size() != size()) original_ = nullptr;
      } catch (const Error&) {
      }
    });
    return original_.get();
  }

  // Returns the original, which has the same sample. Removes the damaged shard, so that the next
  // run packs again.
  const Dataset& instead(int64_t index, const DamagedRecord& damage) const {
    if (!original()) throw damage;
    std::call_once(told_, [&] {
      warn(cat(Packed::origin(index), ": ", damage.what(),
               "; read from the data set itself, which the next run packs again"));
      damage.shard->remove();  // if it stays, the next run finds the damage again
    });
    return *original_;
  }

  DatasetChoice choice_;
  Split split_;
  bool of_files_;
  mutable std::once_flag asked_, told_;
  mutable DatasetPtr original_;
};

// Description of what a data set is read from.
struct Source {
  std::string key;   // its name, options and absolute paths
  std::string text;  // the same, and a stamp that changes if the samples may have changed
  bool of_files;     // the user's; else the program generates them
};

Source read_source(DatasetChoice choice) {
  Listing options;
  choice.visit_options(options);
  Source source{cat("name: ", choice.name()), "", false};
  for (const Listing::Line& line : options.lines)
    if (!line.empty_list()) source.key += cat("\n", line.key, ": ", line.text);
  Sources paths = sources_of(choice);
  source.of_files = !paths.empty();
  std::error_code unreadable;
  for (std::string& path : paths) {
    path = fs::absolute(path, unreadable).string();
    source.key += cat("\nreads: ", path);
  }
  source.text =
      cat(source.key, "\nstamp: ", stamp(source.of_files ? paths : Sources{"/proc/self/exe"}));
  return source;
}

}  // namespace

std::string source_of(const DatasetChoice& choice) { return read_source(choice).text; }

// Returns the copy in `folder`. Null if there is none or it cannot be used; `why` then receives the
// error, if any.
static std::shared_ptr<const CachedCopy> find(const Path& folder, Split split,
                                              const DatasetChoice& choice, const Source& source,
                                              std::string& why) {
  why.clear();
  std::error_code unreadable;
  if (!fs::exists(shard_path(folder, split, 0), unreadable)) return nullptr;
  try {
    auto found = std::make_shared<CachedCopy>(folder, split, choice, source.of_files);
    if (found->is_of(source.text)) return found;
  } catch (const Error& error) {
    if (error.exit != Exit::data && error.exit != Exit::storage) throw;
    why = error.what();
  }
  return nullptr;
}

// The folder does not depend on the stamp, so a copy of files that have changed since is replaced.
// Processes that read it have its shards open, and so keep them.
static Path folder_of(const DatasetChoice& choice, const Source& source) {
  return cache_folder() / "packed" /
         fmt::format("{}-{:08x}", choice.name(), crc32c(bytes_of(source.key)));
}

bool has_cached_copy(const DatasetChoice& choice, const std::vector<std::string>& classes) {
  if (choice.name() == "packed") return true;
  const Source source = read_source(choice);
  const Path folder = folder_of(choice, source);
  std::string untold;
  const auto has = [&](Split split) {
    const auto copy = find(folder, split, choice, source, untold);
    return copy && (classes.empty() || class_names(copy->info()) == classes);
  };
  return has(Split::train) && has(Split::test);
}

// Takes the lock. One process at a time packs into a folder; others wait for up to timeout_s.
static bool take(FileLock& lock, const Path& folder, double timeout_s) {
  if (lock.try_take()) return true;
  say_error(cat("packed: waiting for ", lock.owner(), ", which packs the same data set into ",
                folder.string()));
  return lock.take_within(timeout_s);
}

static FileLock lock_in(const Path& folder) try {
  make_folders(folder, "");
  return FileLock(folder / ".lock");
} catch (const Error& error) {
  fail(error.exit, error.what(), "; set XDG_CACHE_HOME to another folder for caches");
}

static std::string note_of(const Dataset& copy, const Path& folder) {
  return cat("packed: ", count_of(copy.size(), "sample"), ", out of ", folder.string());
}

DatasetPtr cached_copy(const DatasetChoice& choice, Split split, const PackedCacheOptions& options,
                       std::vector<std::string>& notes) {
  if (choice.name() == "packed") return choice.make({split});
  const Source source = read_source(choice);
  const Path folder = folder_of(choice, source);
  std::string why;
  auto found = find(folder, split, choice, source, why);
  if (found) return notes.push_back(note_of(*found, folder)), found;
  FileLock lock = lock_in(folder);
  if (!take(lock, folder, options.timeout_s)) {
    notes.push_back(cat("packed: not yet: ", lock.owner(), " is still packing after a wait of ",
                        options.timeout_s, " s (data.timeout_s); reading the data set itself"));
    return choice.make({split});
  }
  remove_temporaries(folder);
  found = find(folder, split, choice, source, why);  // another process may have packed it
  if (found) return notes.push_back(note_of(*found, folder)), found;
  const auto original = choice.make({split});
  std::string described = source.text;
  for (const std::string& note : original->notes()) described += cat(kNote, note);
  const PackedSplit made = pack(*original, split, described, folder,
                                {.record_failures = options.on_damaged == OnDamaged::skip});
  notes.push_back(cat("packed", why.empty() ? "" : " again", ": ", text_of(made), ", into ",
                      folder.string(), why.empty() ? "" : "; the previous copy: ", why));
  return std::make_shared<CachedCopy>(folder, split, choice, source.of_files);
}

}  // namespace bellows
