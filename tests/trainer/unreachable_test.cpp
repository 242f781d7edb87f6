// Unreachable paths, for every option and argument that takes a path: one line with the path and
// the reason, and the exit code for that kind of path.
#include <gmock/gmock.h>
#include <unistd.h>
#include "tests/trainer/program.h"

using namespace bellows;
namespace fs = std::filesystem;

// Becomes nobody if the tests run as root, who can follow every path.
static void as_nobody() {
  if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(77);
}

class Unreachable : public Program {
 protected:
  Unreachable() {
    fs::permissions(folder_, fs::perms::all);
    write("file", "x");
    fs::create_symlink("ring", folder_ / "ring");
    fs::create_directory(folder_ / "locked");
    fs::permissions(folder_ / "locked", fs::perms::none);
  }
  ~Unreachable() override { fs::permissions(folder_ / "locked", fs::perms::owner_all); }
};

TEST_F(Unreachable, PathsEndWithTheirReasonAndTheDocumentedExit) {
  succeed(tiny({}), as_nobody);
  const std::string longest(300, 'x'), digits = "data={name: digits, train_size: 16}";
  const std::map<std::string, std::string> paths = {{"locked/x", "Permission denied"},
                                                    {"ring", "Too many levels of symbolic links"},
                                                    {"ring/x", "Too many levels of symbolic links"},
                                                    {longest, "File name too long"},
                                                    {"file/x", ""}};
  for (const auto& [path, reason] : paths) {
    const struct {
      Args args;
      int code;
    } uses[] = {
        {{"--config", path}, 2},
        {tiny({"--resume", path}), 4},
        {tiny({"--run-dir", path + "/run"}), 8},
        {tiny({"data={name: mnist, root: " + path + "}"}), 3},
        {tiny({"data={name: cifar10, root: " + path + "}"}), 3},
        {tiny({"data={name: image_folder, root: " + path + "}"}), 3},
        {tiny({"data={name: packed, folder: " + path + "}"}), 3},
        {tiny({"train.weights=" + path}), 4},
        {{"eval", path}, 4},
        {{"predict", "runs/run", path}, 3},
        {{"export", path, "out.safetensors"}, 4},
        {{"export", "runs/run", path}, 8},
        {{"pack", digits, "--out", path}, 8},
    };
    for (const auto& [args, code] : uses) expect_refusal(args, code, reason, as_nobody);
  }
}

// mkdir fails there. The file in it, which cannot be opened either, is not the reason.
TEST_F(Unreachable, AFolderInWhichNothingMayBeWritten) {
  fs::create_directory(folder_ / "readonly");
  fs::permissions(folder_ / "readonly", fs::perms::owner_read | fs::perms::owner_exec |
                                            fs::perms::others_read | fs::perms::others_exec);
  for (const Args& args :
       {Args{"pack", "data={name: digits, train_size: 16}", "--out", "readonly/packed"},
        tiny({"--run-dir", "readonly/run"})})
    expect_refusal(args, 8, ": mkdir: Permission denied; choose ", as_nobody);
}

TEST_F(Unreachable, AConfigIsBasedOnNamesTheFileThatSaysSo) {
  write("based.yaml", "base: locked/x.yaml\n");
  expect_refusal({"--config", "based.yaml"}, 2, "locked/x.yaml: stat: Permission denied",
                 as_nobody);
}

TEST_F(Unreachable, AnOverrideBehindResumeMayBeLongerThanAName) {
  std::string layers = "flatten, {name: linear, out: 10}";
  for (int i = 0; i < 40; ++i) layers += ", relu";
  succeed(tiny({"--resume", "model={name: layers, layers: [" + layers + "]}"}));
}
