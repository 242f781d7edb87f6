// DiskCache: finds entries by their key only, ignores damaged ones, and never throws.
#include "core/base/disk_cache.h"
#include <fstream>
#include "tests/matchers.h"
#include "tests/temp_folder.h"
#include "tests/variable.h"

using namespace bellows;
namespace fs = std::filesystem;
using testing::Optional;

namespace {

class DiskCaches : public testing::Test {
 protected:
  Path only_file() const {
    const std::vector<fs::path> all(fs::directory_iterator(folder), {});
    EXPECT_EQ(all.size(), 1u);
    return all.at(0);
  }

  const TempFolder temporary;
  const Path folder = temporary.path;
};

std::string text_of(const Path& path) { return read_file(path, 1 << 20, Exit::storage); }
void overwrite(const Path& path, const std::string& text) { std::ofstream(path) << text; }

}  // namespace

TEST_F(DiskCaches, FindWhatTheyKeepAlsoInAnotherProcess) {
  DiskCache cache(folder / "made" / "when needed");
  EXPECT_EQ(cache.find("plan", "key"), std::nullopt);
  const std::string content("any \0 bytes", 11);
  cache.keep("plan", "key", content);
  EXPECT_THAT(cache.find("plan", "key"), Optional(content));
  EXPECT_THAT(DiskCache(folder / "made" / "when needed").find("plan", "key"), Optional(content));
  cache.keep("plan", "key", "");
  EXPECT_THAT(cache.find("plan", "key"), Optional(std::string()));
}

// Flips a bit in each byte and truncates at each length.
TEST_F(DiskCaches, DoNotFindWhatIsDamaged) {
  DiskCache cache(folder);
  cache.keep("plan", "key", "content");
  const std::string whole = text_of(only_file());
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] ^= 0x10;
    overwrite(only_file(), damaged);
    EXPECT_EQ(cache.find("plan", "key"), std::nullopt) << "byte " << i;
    overwrite(only_file(), whole.substr(0, i));
    EXPECT_EQ(cache.find("plan", "key"), std::nullopt) << i << " bytes";
  }
  overwrite(only_file(), whole + "x");
  EXPECT_EQ(cache.find("plan", "key"), std::nullopt);
  cache.keep("plan", "key", "content");
  EXPECT_THAT(cache.find("plan", "key"), Optional(std::string("content")));
}

// Two keys with equal checksums share a file name. Simulated here by renaming a file.
TEST_F(DiskCaches, DoNotHandOutWhatIsAnotherKeys) {
  DiskCache cache(folder);
  cache.keep("plan", "mine", "content");
  const Path mine = only_file();
  const std::string entry = text_of(mine);
  fs::remove(mine);
  cache.keep("plan", "that", "content");
  overwrite(only_file(), entry);
  EXPECT_EQ(cache.find("plan", "that"), std::nullopt);
}

TEST_F(DiskCaches, SayOnceThatAFolderCannotBeWritten) {
  overwrite(folder / "file", "");
  DiskCache cache(folder / "file" / "below");
  testing::internal::CaptureStderr();
  cache.keep("plan", "key", "content");
  cache.keep("plan", "key", "content");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, StartsWith("warning: nothing is cached in " + folder.string()));
  EXPECT_EQ(std::ranges::count(said, '\n'), 1);
  EXPECT_EQ(cache.find("plan", "key"), std::nullopt);
}

TEST_F(DiskCaches, LieWhereTheUsersCachesDo) {
  const Variable home("HOME", folder.c_str());
  {
    const Variable caches("XDG_CACHE_HOME", folder.c_str());
    DiskCache().keep("plan", "key", "content");
    EXPECT_TRUE(fs::is_directory(folder / "bellows"));
  }
  const Variable none("XDG_CACHE_HOME", nullptr);
  EXPECT_EQ(cache_folder(), folder / ".cache/bellows");
  const Variable homeless("HOME", nullptr);
  EXPECT_TRUE(cache_folder().is_absolute()) << cache_folder();
}
