// Search paths of the built programs and libraries: an empty or a relative entry of RUNPATH is the
// working folder, where anybody may have put code.
#include <gmock/gmock.h>
#include <cstdio>
#include "tests/house/tree.h"

namespace fs = std::filesystem;

// Returns the first bad entry of a search path, "" if there is none.
static std::string wrong_entry(const std::string& path) {
  std::istringstream entries(path + ":");  // a last entry that is empty counts as well
  for (std::string entry; std::getline(entries, entry, ':');)
    if (!entry.starts_with("/") && entry != "$ORIGIN" && !entry.starts_with("$ORIGIN/"))
      return "'" + entry + "'";
  return "";
}

TEST(SearchPath, FindsWhatIsPlanted) {
  EXPECT_EQ(wrong_entry("/usr/lib:$ORIGIN/../lib"), "");
  for (const char* path : {"", "/usr/lib:", ":/usr/lib", "/usr/lib::$ORIGIN"})
    EXPECT_EQ(wrong_entry(path), "''") << path;
  EXPECT_EQ(wrong_entry("lib:/usr/lib"), "'lib'");
}

static bool is_elf(const fs::path& file) {
  char magic[4] = {};
  std::ifstream(file, std::ios::binary).read(magic, 4);
  return std::string(magic, 4) ==
         "\x7f"
         "ELF";
}

// Programs and libraries of the build, without the folders that other tests write into.
static std::vector<fs::path> built_files() {
  const std::set<fs::path> left_out = {"CMakeFiles", "Testing", "bundle_test", "cache",
                                       "cuda_code"};
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator at(bellows::build_dir()), end; at != end; ++at) {
    if (left_out.contains(at->path().filename())) at.disable_recursion_pending();
    if (at->is_regular_file() && is_elf(at->path())) files.push_back(at->path());
  }
  return files;
}

TEST(SearchPath, OfBuiltFilesHasNoEmptyAndNoRelativeEntry) {
  const std::vector<fs::path> files = built_files();
  EXPECT_GE(files.size(), 2u);  // the trainer, and this program
  for (const fs::path& file : files) {
    FILE* const dynamic = popen(("readelf -dW '" + file.string() + "'").c_str(), "r");
    char line[4096];
    while (fgets(line, sizeof line, dynamic)) {
      const std::string text = line;
      const size_t begin = text.find('['), end = text.rfind(']');
      if (text.find("(RUNPATH)") == text.npos && text.find("(RPATH)") == text.npos) continue;
      EXPECT_EQ(wrong_entry(text.substr(begin + 1, end - begin - 1)), "") << file << text;
    }
    EXPECT_EQ(pclose(dynamic), 0) << file;
  }
}
