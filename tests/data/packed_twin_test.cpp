// The packed twin: packed once, again when what it was made from has changed, and never in between.
#include "data/packed_twin.h"
#include <gmock/gmock.h>
#include "data/packed.h"
#include "tests/data/files.h"
#include "tests/data/image_files.h"
#include "tests/data/options.h"

using namespace bellows;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

namespace {
struct Twins : testing::Test {
  Twins() { setenv("XDG_CACHE_HOME", caches.path.c_str(), 1); }
  ~Twins() override {
    known.empty() ? unsetenv("XDG_CACHE_HOME") : setenv("XDG_CACHE_HOME", known.c_str(), 1);
  }
  std::shared_ptr<const Dataset> twin(const DatasetChoice& choice, Split split = Split::train) {
    notes.clear();
    return packed_twin(choice, split, notes);
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
  const std::string known = std::getenv("XDG_CACHE_HOME") ? std::getenv("XDG_CACHE_HOME") : "";
};
}  // namespace

static auto Packs() { return ElementsAre(HasSubstr(" MB, ")); }
static auto Reads() { return ElementsAre(HasSubstr(" samples, out of ")); }

TEST_F(Twins, ArePackedOnceAndThenRead) {
  EXPECT_EQ(twin(digits(20))->size(), 20);
  EXPECT_THAT(notes, Packs());
  EXPECT_EQ(twin(digits(20))->size(), 20);
  EXPECT_THAT(notes, Reads());
  EXPECT_EQ(folders().size(), 1u);
  EXPECT_THAT(notes.front(), HasSubstr(folders().front().string()));
  twin(digits(20), Split::test);
  EXPECT_THAT(notes, Packs());
  EXPECT_EQ(twin(digits(21))->size(), 21);
  EXPECT_THAT(notes, Packs()) << "other options, another twin";
  EXPECT_EQ(folders().size(), 2u);
}

TEST_F(Twins, ArePackedAgainWhenAFileHasChanged) {
  const TempFolder pictures;
  for (const char* name : {"train/a/0.jpg", "train/a/1.jpg"})
    pictures.write(name, as_jpeg(slopes(20, 20)));
  const auto folder = chosen<DatasetChoice>("image_folder", {{"root", pictures.path}});
  twin(folder);
  twin(folder);
  EXPECT_THAT(notes, Reads());
  pictures.write("train/a/2.jpg", as_jpeg(slopes(20, 20)));
  EXPECT_EQ(twin(folder)->size(), 3);
  EXPECT_THAT(notes, Packs());
  const fs::path first = pictures.path / "train/a/0.jpg";
  fs::last_write_time(first, fs::last_write_time(first) + std::chrono::seconds(1));
  twin(folder);
  EXPECT_THAT(notes, Packs()) << "as large as before, and written later";
}

TEST_F(Twins, ThatAreDamagedOrAnothersAreNotUsed) {
  twin(digits(20));
  const fs::path shard = folders().front() / "train-00000.shard";
  fs::resize_file(shard, 1000);
  EXPECT_EQ(twin(digits(20))->size(), 20);
  EXPECT_THAT(notes, ElementsAre(AllOf(HasSubstr("packed: not used: "), HasSubstr(shard.string())),
                                 HasSubstr(" MB, ")));
  const fs::path mine = folders().front();
  twin(digits(21));
  for (const fs::path& other : folders())
    if (other != mine)
      fs::copy(other / "train-00000.shard", shard, fs::copy_options::overwrite_existing);
  EXPECT_EQ(twin(digits(20))->size(), 20);
  EXPECT_THAT(notes, Packs());
}

TEST_F(Twins, LeaveNothingOfAPackerThatWasKilled) {
  twin(digits(20));
  const fs::path left = folders().front() / "train-00001.shard.77-0.bellows-tmp";
  std::ofstream(left) << "half a shard";
  twin(digits(20));
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(Twins, OfWhatIsPackedAreItself) {
  twin(digits(20));
  const fs::path folder = folders().front();
  const auto packed = chosen<DatasetChoice>("packed", {{"folder", folder}});
  EXPECT_EQ(twin(packed)->size(), 20);
  EXPECT_THAT(notes, testing::IsEmpty());
  EXPECT_EQ(folders().size(), 1u);
}

TEST_F(Twins, SayThatTheCacheCannotBeWritten) {
  const std::string file = caches.write("file", "in the way");
  setenv("XDG_CACHE_HOME", file.c_str(), 1);
  EXPECT_THAT(complaint(Exit::storage, [&] { twin(digits(20)); }),
              AllOf(HasSubstr(file), HasSubstr("XDG_CACHE_HOME")));
}
