// The packed cache: a data set is packed once, and again only when its source has changed.
#include "data/packed/packed_cache.h"
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <thread>
#include "core/base/file.h"
#include "core/base/trace.h"
#include "core/config/values.h"
#include "data/loader/loader.h"
#include "data/packed/packed.h"
#include "tests/data/files.h"
#include "tests/data/image_files.h"
#include "tests/data/options.h"

using namespace bellows;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
namespace fs = std::filesystem;

namespace {
struct PackedCache : testing::Test {
  PackedCache() { setenv("XDG_CACHE_HOME", caches.path.c_str(), 1); }
  ~PackedCache() override {
    known.empty() ? unsetenv("XDG_CACHE_HOME") : setenv("XDG_CACHE_HOME", known.c_str(), 1);
  }
  DatasetPtr copy_of(const DatasetChoice& choice, Split split = Split::train,
                     OnDamaged on_damaged = OnDamaged::error) {
    notes.clear();
    return cached_copy(choice, split, {on_damaged, timeout_s}, notes);
  }
  std::vector<fs::path> folders() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(caches.path / "bellows/packed"))
      all.push_back(entry.path());
    return all;
  }
  static DatasetChoice digits(int size) {
    return chosen<DatasetChoice>("digits", {{"train_size", std::to_string(size)}});
  }

  const TempFolder caches;
  std::vector<std::string> notes;
  double timeout_s = 60;
  const std::string known = std::getenv("XDG_CACHE_HOME") ? std::getenv("XDG_CACHE_HOME") : "";
};
}  // namespace

static auto Packs() { return ElementsAre(HasSubstr(" MB, ")); }
static auto Reads() { return ElementsAre(HasSubstr(", out of ")); }

TEST_F(PackedCache, PacksOnceAndThenReads) {
  EXPECT_EQ(copy_of(digits(20))->size(), 20);
  EXPECT_THAT(notes, Packs());
  EXPECT_EQ(copy_of(digits(20))->size(), 20);
  EXPECT_THAT(notes, Reads());
  EXPECT_EQ(folders().size(), 1u);
  EXPECT_THAT(notes.front(), HasSubstr(folders().front().string()));
  copy_of(digits(20), Split::test);
  EXPECT_THAT(notes, Packs());
  EXPECT_EQ(copy_of(digits(21))->size(), 21);
  EXPECT_THAT(notes, Packs()) << "other options, another copy";
  EXPECT_EQ(folders().size(), 2u);
}

TEST_F(PackedCache, PacksAgainWhenAFileHasChanged) {
  const TempFolder pictures;
  for (const char* name : {"train/a/0.jpg", "train/a/1.jpg"})
    pictures.write(name, as_jpeg(slopes(20, 20)));
  const auto folder = chosen<DatasetChoice>("image_folder", {{"root", pictures.path}});
  copy_of(folder);
  copy_of(folder);
  EXPECT_THAT(notes, Reads());
  pictures.write("train/a/2.jpg", as_jpeg(slopes(20, 20)));
  EXPECT_EQ(copy_of(folder)->size(), 3);
  EXPECT_THAT(notes, Packs());
  const fs::path first = pictures.path / "train/a/0.jpg";
  fs::last_write_time(first, fs::last_write_time(first) + std::chrono::seconds(1));
  copy_of(folder);
  EXPECT_THAT(notes, Packs()) << "as large as before, and written later";
}

// After chmod a file may be readable that was not: only the time of its last change of status
// tells.
TEST_F(PackedCache, PacksAgainWhenThePermissionsOfAFileHaveChanged) {
  const TempFolder pictures;
  const fs::path file = pictures.write("train/a/0.jpg", as_jpeg(slopes(20, 20)));
  const auto folder = chosen<DatasetChoice>("image_folder", {{"root", pictures.path}});
  copy_of(folder);
  fs::permissions(file, fs::perms::owner_read);
  copy_of(folder);
  EXPECT_THAT(notes, Packs());
}

TEST_F(PackedCache, PacksAgainWhenAFileOutsideTheRootHasChanged) {
  const TempFolder pictures;
  for (const std::string& train : {std::string("../train"), (pictures.path / "train").string()}) {
    pictures.write("train/a/0.jpg", as_jpeg(slopes(20, 20)));
    fs::create_directories(pictures.path / "root");
    const auto folder =
        chosen<DatasetChoice>("image_folder", {{"root", pictures.path / "root"}, {"train", train}});
    copy_of(folder);
    pictures.write("train/a/0.jpg", as_jpeg(slopes(24, 24)));
    Scratch scratch;
    EXPECT_EQ(copy_of(folder)->at(0, scratch).shape, (Shape{3, 24, 24})) << train;
    EXPECT_THAT(notes, Packs());
  }
}

// Such as runs/, if the program works in the folder of the data.
TEST_F(PackedCache, IgnoresFilesThatTheDataSetDoesNotRead) {
  const TempFolder pictures, numbers;
  pictures.write("train/a/0.jpg", as_jpeg(slopes(20, 20)));
  numbers.write("train-images-idx3-ubyte", idx({4, 2, 2}));
  numbers.write("train-labels-idx1-ubyte", idx({4}));
  for (const auto& [name, folder] :
       {std::pair("image_folder", &pictures), std::pair("mnist", &numbers)}) {
    const auto files = chosen<DatasetChoice>(name, {{"root", folder->path}});
    copy_of(files);
    EXPECT_THAT(notes, Packs());
    folder->write("runs/run/metrics.jsonl", "{}");
    copy_of(files);
    EXPECT_THAT(notes, Reads()) << name;
  }
  numbers.write("train-labels-idx1-ubyte", idx({4}));
  copy_of(chosen<DatasetChoice>("mnist", {{"root", numbers.path}}));
  EXPECT_THAT(notes, Packs()) << "written again";
}

// Without them the cache would not notice new files.
TEST(Sources, AreNamedByEachDataSetThatIsReadFromAFolder) {
  int of_files = 0;
  for (const std::string& name : DatasetChoice::names()) {
    DatasetChoice choice(name);
    Listing options;
    choice.visit_options(options);
    const Values values = values_of(options);
    if (!values.contains("root") && !values.contains("folder")) continue;
    EXPECT_FALSE(sources_of(choice).empty()) << name;
    ++of_files;
  }
  EXPECT_GE(of_files, 4);
}

// The shards that a reader has open stay readable.
TEST_F(PackedCache, ReplacesTheCopyOfFilesThatHaveChanged) {
  const TempFolder pictures;
  pictures.write("train/a/0.jpg", as_jpeg(slopes(20, 20)));
  const auto folder = chosen<DatasetChoice>("image_folder", {{"root", pictures.path}});
  const auto old = copy_of(folder);
  pictures.write("train/a/0.jpg", as_jpeg(slopes(24, 24)));
  Scratch scratch;
  EXPECT_EQ(copy_of(folder)->at(0, scratch).shape, (Shape{3, 24, 24}));
  EXPECT_EQ(old->at(0, scratch).shape, (Shape{3, 20, 20}));
  EXPECT_EQ(folders().size(), 1u);
}

TEST_F(PackedCache, PacksAgainWhenAFileBehindALinkHasChanged) {
  const TempFolder disk, pictures;
  disk.write("a/0.jpg", as_jpeg(slopes(20, 20)));
  fs::create_directory_symlink(disk.path, pictures.path / "train");
  for (const char* circle : {"a/all", "a/again"})
    fs::create_directory_symlink(disk.path, disk.path / circle);
  const auto folder = chosen<DatasetChoice>("image_folder", {{"root", pictures.path}});
  copy_of(folder);
  disk.write("a/1.jpg", as_jpeg(slopes(20, 20)));
  EXPECT_EQ(copy_of(folder)->size(), 2);
  EXPECT_THAT(notes, Packs());
}

// Sizes and times of the files stay the same.
TEST_F(PackedCache, PacksAgainWhenClassFoldersChangeNames) {
  const TempFolder pictures;
  const fs::path train = pictures.path / "train";
  const auto written = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (const char* name : {"train/a/0.jpg", "train/b/0.jpg"}) {
    pictures.write(name, as_jpeg(slopes(20, 20)));
    fs::last_write_time(pictures.path / name, written);
  }
  const auto all_folders_from = [&](auto time) {
    for (const fs::path& path : {train / "a", train / "b", train}) fs::last_write_time(path, time);
  };
  all_folders_from(written);
  const auto folder = chosen<DatasetChoice>("image_folder", {{"root", pictures.path}});
  copy_of(folder);
  fs::rename(train / "a", train / "c");
  fs::rename(train / "b", train / "a");
  fs::rename(train / "c", train / "b");
  copy_of(folder);
  EXPECT_THAT(notes, Packs()) << "they changed places";
  all_folders_from(written);
  copy_of(folder);
  pictures.write("train/A/0.jpg", as_jpeg(slopes(20, 20)));
  const auto shifted = copy_of(folder);
  EXPECT_THAT(notes, Packs()) << "a class came first";
  EXPECT_THAT(shifted->info().names, ElementsAre("A", "a", "b"));
  Scratch scratch;
  EXPECT_EQ(shifted->at(2, scratch).label, 2);
}

TEST_F(PackedCache, HasACopyOnlyWithTheSameClasses) {
  const TempFolder pictures;
  for (const char* name : {"train/a/0.jpg", "train/b/0.jpg", "val/a/0.jpg", "val/b/0.jpg"})
    pictures.write(name, as_jpeg(slopes(20, 20)));
  const auto folder = chosen<DatasetChoice>("image_folder", {{"root", pictures.path}});
  EXPECT_FALSE(has_cached_copy(folder));
  for (const Split split : {Split::train, Split::test}) copy_of(folder, split);
  EXPECT_TRUE(has_cached_copy(folder));
  EXPECT_TRUE(has_cached_copy(folder, {"a", "b"}));
  EXPECT_FALSE(has_cached_copy(folder, {"b", "a"}));
  EXPECT_FALSE(has_cached_copy(folder, {"a", "b", "c"}));
  for (const Split split : {Split::train, Split::test}) copy_of(digits(20), split);
  EXPECT_TRUE(has_cached_copy(digits(20), class_names(digits(20).make({Split::train})->info())))
      << "numbered classes";
}

TEST_F(PackedCache, ReportsLinksThatLeadNowhereEachTime) {
  const TempFolder pictures;
  pictures.write("train/a/0.jpg", as_jpeg(slopes(20, 20)));
  fs::create_symlink("nowhere.jpg", pictures.path / "train/a/1.jpg");
  const auto folder = chosen<DatasetChoice>("image_folder", {{"root", pictures.path}});
  const auto wanted = folder.make({Split::train})->notes();
  EXPECT_THAT(wanted, ElementsAre(HasSubstr(": 1 left out: broken link 1; the first is ")));
  EXPECT_EQ(copy_of(folder)->notes(), wanted);
  EXPECT_THAT(notes, Packs());
  EXPECT_EQ(copy_of(folder)->notes(), wanted);
  EXPECT_THAT(notes, Reads());
}

// `train: train` is relative to root, not to the working directory.
TEST_F(PackedCache, DoesNotDependOnTheWorkingDirectory) {
  const TempFolder pictures, elsewhere;
  pictures.write("train/a/0.jpg", as_jpeg(slopes(20, 20)));
  elsewhere.write("train/notes.txt", "of something else");
  const auto folder = chosen<DatasetChoice>("image_folder", {{"root", pictures.path}});
  const std::string here = source_of(folder);
  const fs::path before = fs::current_path();
  fs::current_path(elsewhere.path);
  const std::string there = source_of(folder);
  fs::current_path(before);
  EXPECT_EQ(there, here);
}

TEST_F(PackedCache, DoesNotUseADamagedCopyOrThatOfOtherData) {
  copy_of(digits(20));
  const fs::path shard = folders().front() / "train-00000.shard";
  fs::resize_file(shard, 1000);
  EXPECT_EQ(copy_of(digits(20))->size(), 20);
  EXPECT_THAT(notes, ElementsAre(AllOf(StartsWith("packed again: 20 samples, "),
                                       HasSubstr("; the previous copy: " + shard.string()))));
  const fs::path mine = folders().front();
  copy_of(digits(21));
  for (const fs::path& other : folders())
    if (other != mine)
      fs::copy(other / "train-00000.shard", shard, fs::copy_options::overwrite_existing);
  EXPECT_EQ(copy_of(digits(20))->size(), 20);
  EXPECT_THAT(notes, Packs());
}

TEST_F(PackedCache, PacksAgainForAnOlderVersion) {
  copy_of(digits(20));
  const fs::path shard = folders().front() / "train-00000.shard";
  std::fstream(shard, std::ios::in | std::ios::out).seekp(8).put(1);
  EXPECT_EQ(copy_of(digits(20))->size(), 20);
  EXPECT_THAT(notes, ElementsAre(AllOf(StartsWith("packed again: "), HasSubstr("version 1"))));
  copy_of(digits(20));
  EXPECT_THAT(notes, Reads());
}

TEST_F(PackedCache, RemovesTheTemporariesOfAPackerThatWasKilled) {
  copy_of(digits(20));
  const fs::path left = folders().front() / "train-00001.shard.77-0.bellows-tmp";
  std::ofstream(left) << "half a shard";
  copy_of(digits(20), Split::test);
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(PackedCache, ReturnsAPackedDataSetItself) {
  copy_of(digits(20));
  const fs::path folder = folders().front();
  const auto packed = chosen<DatasetChoice>("packed", {{"folder", folder}});
  EXPECT_EQ(copy_of(packed)->size(), 20);
  EXPECT_THAT(notes, testing::IsEmpty());
  EXPECT_EQ(folders().size(), 1u);
}

TEST_F(PackedCache, ReportsThatItCannotBeWritten) {
  const std::string file = caches.write("file", "in the way");
  setenv("XDG_CACHE_HOME", file.c_str(), 1);
  EXPECT_THAT(complaint(Exit::storage, [&] { copy_of(digits(20)); }),
              AllOf(HasSubstr(file), HasSubstr("XDG_CACHE_HOME")));
}

// ---- another process that packs

// Holds the lock of a folder in a process of its own, like one that packs into it, for at most
// `seconds` or until destroyed.
class Holder {
 public:
  Holder(const fs::path& folder, double seconds) : process_(fork()) {
    if (process_ == 0) {
      FileLock lock(folder / ".lock");
      if (lock.try_take()) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
      _exit(0);
    }
    for (FileLock lock(folder / ".lock"); lock.owner() != name();)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~Holder() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  std::string name() const {
    char host[256] = {};
    gethostname(host, sizeof host - 1);
    return cat("process ", process_, " on ", host);
  }

 private:
  pid_t process_;
};

// Returns the folder of the cache, which has no shard any more.
static fs::path emptied(const fs::path& folder) {
  fs::remove(folder / "train-00000.shard");
  return folder;
}

TEST_F(PackedCache, WaitsForAProcessThatPacksTheSameAndNamesIt) {
  copy_of(digits(20));
  const fs::path folder = emptied(folders().front());
  const Holder holder(folder, .2);
  testing::internal::CaptureStderr();
  EXPECT_EQ(copy_of(digits(20))->size(), 20);
  EXPECT_THAT(notes, Packs());
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            cat("packed: waiting for ", holder.name(), ", which packs the same data set into ",
                folder.string(), "\n"));
}

TEST_F(PackedCache, DoesNotWaitIfThereIsACopy) {
  copy_of(digits(20));
  const Holder holder(folders().front(), 60);
  timeout_s = .05;
  testing::internal::CaptureStderr();
  copy_of(digits(20));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_THAT(notes, Reads());
}

TEST_F(PackedCache, ReturnsTheDataSetItselfAfterTheTimeout) {
  copy_of(digits(20));
  const auto holder = std::make_unique<Holder>(emptied(folders().front()), 60);
  timeout_s = .05;
  testing::internal::CaptureStderr();
  const auto read = copy_of(digits(20));
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(read->size(), 20);
  EXPECT_EQ(dynamic_cast<const Packed*>(read.get()), nullptr);
  EXPECT_THAT(notes,
              ElementsAre(cat("packed: not yet: ", holder->name(), " is still packing after ",
                              "a wait of 0.05 s (data.timeout_s); reading the data set itself")));
}

TEST_F(PackedCache, TakesTheLockOfAProcessThatWasKilled) {
  copy_of(digits(20));
  std::make_unique<Holder>(emptied(folders().front()), 60).reset();
  timeout_s = .05;
  copy_of(digits(20));
  EXPECT_THAT(notes, Packs());
}

// ---- damaged samples

namespace {

// JPEGs of one gray each. The sixth has ramps instead, and the last quarter of its file is missing.
struct PackedCacheOfDamaged : PackedCache {
  PackedCacheOfDamaged() {
    for (int i = 0; i < 12; ++i) {
      Pixels grey = slopes(16, 16);
      std::ranges::fill(grey.bytes, uint8_t(20 * i));
      pictures.write(name(i), as_jpeg(grey));
    }
    const std::string file = as_jpeg(slopes(64, 64));
    pictures.write(name(5), file.substr(0, file.size() / 4 * 3));
  }
  std::string name(int i) const { return cat("train/", i < 6 ? "cat/" : "dog/", 10 + i, ".jpg"); }
  std::string path(int i) const { return pictures.path / name(i); }
  void make_unreadable(int i) const { fs::resize_file(path(i), uint64_t{5} << 30); }
  DatasetChoice folder() const {
    return chosen<DatasetChoice>("image_folder", {{"root", pictures.path}});
  }

  // Grays and labels of a shuffled epoch, and what was left out of it.
  struct Epoch {
    std::vector<std::pair<int, int64_t>> samples;
    std::string damaged;
    bool operator==(const Epoch&) const = default;
  };
  static Epoch epoch_of(const DatasetPtr& all, OnDamaged on_damaged) {
    const auto dataset = without_damaged(all, on_damaged);
    Epoch epoch{{}, dataset->damaged_text()};
    Loader loader(dataset, {chosen<TransformChoice>("center_crop", {{"size", "2"}})},
                  {.sampler = {.batch_size = 4}, .batch = {.on_damaged = on_damaged}}, 3);
    loader.start(1);
    for (Batch batch; loader.next(batch);)
      for (int64_t i = 0; i < batch.size(); ++i)
        epoch.samples.emplace_back(std::lround(255 * batch.x.ptr<float>()[12 * i]),
                                   batch.y.ptr<int64_t>()[i]);
    return epoch;
  }

  const TempFolder pictures;
};

}  // namespace

TEST_F(PackedCacheOfDamaged, SkipsTheSameSamplesAsTheFiles) {
  make_unreadable(8);
  testing::internal::CaptureStderr();
  const Epoch wanted = epoch_of(folder().make({Split::train}), OnDamaged::skip);
  EXPECT_EQ(wanted.samples.size(), 10u);
  EXPECT_THAT(wanted.damaged, StartsWith("2 damaged samples left out ("));
  for (const char* note : {"packed: 12 samples, 1 shard, ", "packed: 12 samples, out of "}) {
    const auto packed = copy_of(folder(), Split::train, OnDamaged::skip);
    EXPECT_THAT(notes, ElementsAre(HasSubstr(note)));
    EXPECT_EQ(epoch_of(packed, OnDamaged::skip), wanted);
  }
  const std::string told = testing::internal::GetCapturedStderr();
  const std::string shard = (folders().front() / "train-00000.shard").string();
  EXPECT_THAT(told, HasSubstr(cat("warning: ", path(5), ", packed in ", shard,
                                  ", record 5: skipped: JPEG: ")));
  EXPECT_THAT(told, HasSubstr(cat("warning: ", path(8), ", packed in ", shard,
                                  ", record 8: ", "skipped: ", path(8),
                                  ": larger than 4 GiB, when it was packed")));
  EXPECT_EQ(std::ranges::count(told, '\n'), 3 * 2) << told;
}

// Its upper part can be decoded, so the file cannot be marked as damaged as a whole.
TEST_F(PackedCacheOfDamaged, ReturnsThePartThatTheFileStillHas) {
  const auto files = folder().make({Split::train}), packed = copy_of(folder());
  const ViewOf top = [](const Shape&) { return View{{0, 0, 8, 64}}; };
  Scratch one, two;
  EXPECT_EQ(files->at_least(5, top, one).part->height, 8);
  EXPECT_EQ(packed->at_least(5, top, two).part->height, 8);
  EXPECT_EQ(one, two);
  for (const Dataset* dataset : {files.get(), packed.get()})
    EXPECT_THAT(complaint(Exit::data, [&] { dataset->at(5, one); }), StartsWith("JPEG: "));
}

TEST_F(PackedCacheOfDamaged, EndsTheRunAtTheSameSampleAsTheFiles) {
  const std::string file =
      complaint(Exit::data, [&] { epoch_of(folder().make({Split::train}), OnDamaged::error); });
  const auto packed = copy_of(folder());
  const std::string record = complaint(Exit::data, [&] { epoch_of(packed, OnDamaged::error); });
  EXPECT_THAT(file, StartsWith(cat("sample 5 (", path(5), "): JPEG: ")));
  EXPECT_THAT(record, StartsWith(cat("sample 5 (", path(5), ", packed in ")));
  EXPECT_EQ(record.substr(record.find("): ")), file.substr(file.find("): ")));
}

TEST_F(PackedCacheOfDamaged, RefusesUnreadableSamplesUnlessTheyAreSkipped) {
  make_unreadable(8);
  EXPECT_EQ(complaint(Exit::data, [&] { copy_of(folder()); }),
            cat("sample 8 (", path(8), "): ", path(8), ": larger than 4 GiB"));
  copy_of(folder(), Split::train, OnDamaged::skip);
  EXPECT_THAT(notes, ElementsAre(HasSubstr(" s, 1 unreadable, into ")));
  const auto packed = copy_of(folder());
  EXPECT_THAT(notes, Reads());
  Scratch scratch;
  EXPECT_EQ(complaint(Exit::data, [&] { packed->at(8, scratch); }),
            path(8) + ": larger than 4 GiB, when it was packed");
}

TEST_F(PackedCacheOfDamaged, NamesItsOwnRecordsWithoutTheFiles) {
  const auto fewer = copy_of(folder()), none = copy_of(folder());
  const std::string record = (folders().front() / "train-00000.shard, record 5").string();
  fs::remove_all(pictures.path / "train/dog");
  EXPECT_EQ(fewer->origin(5), record);
  fs::remove_all(pictures.path / "train");
  EXPECT_EQ(none->origin(5), record);
  EXPECT_THAT(copy_of(digits(20))->origin(3), StartsWith(caches.path.string()));
}

// ---- damaged copies

// Flips a bit in the last record of a shard.
static void spoil(const fs::path& shard) {
  std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-3, std::ios::end);
  const int byte = file.get();
  file.seekp(-3, std::ios::end).put(char(byte ^ 1));
}

TEST_F(PackedCacheOfDamaged, ReadsDamagedRecordsFromTheFilesAndPacksAgain) {
  testing::internal::CaptureStderr();
  const Epoch wanted = epoch_of(folder().make({Split::train}), OnDamaged::skip);
  copy_of(folder());
  const fs::path shard = folders().front() / "train-00000.shard";
  spoil(shard);
  const auto spoilt = copy_of(folder());
  EXPECT_THAT(notes, Reads()) << "opening looks at no record";
  testing::internal::GetCapturedStderr();
  testing::internal::CaptureStderr();
  for (int epochs = 0; epochs < 2; ++epochs) EXPECT_EQ(epoch_of(spoilt, OnDamaged::skip), wanted);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, HasSubstr(cat("warning: ", shard.string(), ", record 11: damaged: checksum ")));
  EXPECT_THAT(told, Not(HasSubstr("pack it again")));
  EXPECT_EQ(std::ranges::count(told, '\n'), 2 + 1) << "of the file, and once of the copy: " << told;
  const auto again = copy_of(folder());
  EXPECT_THAT(notes, Packs());
  EXPECT_EQ(epoch_of(again, OnDamaged::skip), wanted);
}

// A process with the damaged shard still open must not remove the one packed in its place.
TEST_F(PackedCacheOfDamaged, RemovesNoShardThatAnotherRunHasPackedSince) {
  testing::internal::CaptureStderr();
  copy_of(folder());
  const fs::path shard = folders().front() / "train-00000.shard";
  spoil(shard);
  const auto first = copy_of(folder()), second = copy_of(folder());
  Scratch scratch;
  first->at(11, scratch);
  EXPECT_FALSE(fs::exists(shard));
  copy_of(folder());
  EXPECT_THAT(notes, Packs());
  second->at(11, scratch);
  EXPECT_TRUE(fs::exists(shard));
  testing::internal::GetCapturedStderr();
}

TEST_F(PackedCacheOfDamaged, CountsAReadOnce) {
  const trace::Counter& reads = trace::counter("data.twin_reads");
  Scratch scratch;
  for (const DatasetChoice& choice : {folder(), digits(20)}) {
    const auto copy = copy_of(choice);
    const int64_t before = reads.value();
    copy->at(0, scratch);
    EXPECT_EQ(reads.value() - before, 1) << choice.name();
  }
}

TEST_F(PackedCache, DrawsDamagedRecordsAgain) {
  copy_of(digits(20));
  spoil(folders().front() / "train-00000.shard");
  const auto drawn = digits(20).make({Split::train}), spoilt = copy_of(digits(20));
  testing::internal::CaptureStderr();
  for (int64_t i = 0; i < 20; ++i) {
    Scratch scratch;
    const Sample wanted = drawn->at(i, scratch), got = spoilt->at(i, scratch);
    EXPECT_EQ(got.label, wanted.label);
    EXPECT_TRUE(std::equal(got.pixels, got.pixels + 28 * 28, wanted.pixels)) << i;
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("record 19: damaged: checksum "));
}

// Another file may be the record's sample then, or its label another class.
TEST_F(PackedCacheOfDamaged, ReadsNoDamagedRecordFromFilesThatHaveChanged) {
  copy_of(folder());
  spoil(folders().front() / "train-00000.shard");
  const auto spoilt = copy_of(folder());
  fs::rename(pictures.path / "train/cat", pictures.path / "train/elk");
  Scratch scratch;
  EXPECT_THAT(complaint(Exit::data, [&] { spoilt->at(11, scratch); }),
              StartsWith("damaged: checksum "));
}

TEST_F(PackedCacheOfDamaged, ReportsDamagedRecordsIfTheFilesAreGone) {
  copy_of(folder());
  spoil(folders().front() / "train-00000.shard");
  const auto spoilt = copy_of(folder());
  fs::remove_all(pictures.path / "train");
  Scratch scratch;
  EXPECT_THAT(complaint(Exit::data, [&] { spoilt->at(11, scratch); }),
              StartsWith("damaged: checksum "));
}
