// Every source file that registers something is linked into this executable: its registration ran.
// A linker may silently drop such files, and then an op or a toggle is missing.
#include "core/base/registry.h"
#include <gmock/gmock.h>
#include "tests/house/tree.h"

using namespace bellows;
using testing::IsSupersetOf;
namespace fs = std::filesystem;
using Files = std::set<std::string>;

// True for a static object of a type Add... or Provide, and for an entry in a kernel's table.
static bool registers(const std::string& line) {
  const size_t add = line.find("Add");
  const bool object = line.starts_with("static const ") && add != std::string::npos &&
                      add + 3 < line.size() &&
                      std::isupper(static_cast<unsigned char>(line[add + 3]));
  return object || line.find("on(Device::") != std::string::npos ||
         line.find("vendor_on(") != std::string::npos ||
         line.find("add_kernels(Device::") != std::string::npos ||
         line.starts_with("static const Provide ");
}

// Files for a library that this build leaves out are not compiled, which only shows here.
static bool is_compiled(const fs::path& file) {
  static const std::string commands = [] {
    std::ifstream in(fs::path(build_dir()) / "compile_commands.json");
    return std::string(std::istreambuf_iterator<char>(in), {});
  }();
  return commands.find("/" + file.string() + "\"") != std::string::npos;
}

// Sanitizer builds compile the .cu files for cuda_host, whose programs are others than this.
static bool has_cuda() {
  return std::ranges::any_of(registered_files(),
                             [](const std::string& file) { return file.ends_with(".cu"); });
}

static Files files_that_register() {
  Files files;
  for (const fs::path& file : files_in(product_folders(), {".cpp", ".cu"})) {
    const bool may_be_left_out =
        file.extension() == ".cu" || file.string().starts_with("ops/vendor/");
    if (may_be_left_out && !is_compiled(file)) continue;
    if (file.extension() == ".cu" && !has_cuda()) continue;
    for (const std::string& line : lines_of(file))
      if (registers(line)) files.insert(file);
  }
  return files;
}

TEST(Registry, HoldsEveryFileThatRegisters) {
  EXPECT_THAT(registered_files(), IsSupersetOf(files_that_register()))
      << "a file registers itself and did not arrive: has a linker dropped it?";
}

TEST(Registry, HoldsNothingThatThisTestCannotSee) {
  EXPECT_THAT(files_that_register(), IsSupersetOf(registered_files()))
      << "a file registers itself in words that this test does not search for";
}
