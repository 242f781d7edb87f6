// Libraries in the working folder are never loaded.
#include <gmock/gmock.h>
#include "tests/place.h"
#include "tests/trainer/program.h"

using namespace bellows;
namespace fs = std::filesystem;

class Planted : public Program {
 protected:
  void plant(const std::vector<std::string>& names) {
    for (const std::string& name : names)
      fs::copy_file(fakes_dir() + "/libplanted.so", folder_ / name);
  }
  // Returns whether code in the working folder ran.
  bool runs_code(const std::function<void()>& in_child = {}) {
    const Ended ended = run({"doctor"}, in_child);
    EXPECT_NE(ended.out, "") << ended.err;
    return fs::remove(folder_ / "code_ran");
  }
};

static const std::vector<std::string> kOpenedLater = {
    "libcuda.so.1", "libcudnn.so.9", "libcublasLt.so.13", "libnvrtc.so.13", "libnccl.so.2"};

TEST_F(Planted, InTheWorkingFolderIsNotLoaded) {
  plant(kOpenedLater);
  plant({"libgomp.so.1", "libdnnl.so.3", "libfmt.so.9"});
  EXPECT_FALSE(runs_code());
}

TEST_F(Planted, WhereLdLibraryPathIsRelativeIsNotLoadedLater) {
  plant(kOpenedLater);
  fs::create_directory(folder_ / "lib");
  for (const char* path : {":/nonexistent", "/nonexistent:", "/nonexistent::/none", ".", "lib/.."})
    EXPECT_FALSE(runs_code([=] { setenv("LD_LIBRARY_PATH", path, 1); })) << path;
  // An absolute folder that the user named is trusted. This also shows that the test notices code.
  EXPECT_TRUE(runs_code([this] { setenv("LD_LIBRARY_PATH", folder_.c_str(), 1); }));
}
