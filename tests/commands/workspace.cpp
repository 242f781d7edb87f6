#include "tests/commands/workspace.h"
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <functional>
#include "tests/commands/printed.h"
#include "tests/data/files.h"
#include "tests/data/image_files.h"
#include "tests/place.h"

namespace bellows {

namespace fs = std::filesystem;
using Supply = std::function<void(const TempFolder& folder)>;

static Said run_in(const TempFolder& folder, const std::string& command) {
  const std::string line =
      cat("cd '", folder.path.string(), "' && export PATH=\"$PWD/build:$PATH\" OMP_NUM_THREADS=1 ",
          "OMP_WAIT_POLICY=passive XDG_CACHE_HOME=\"$PWD/cache\"; { ", command, "; } 2>&1");
  FILE* const pipe = popen(line.c_str(), "r");
  Said said;
  for (int c; (c = fgetc(pipe)) != EOF;) said.text += static_cast<char>(c);
  said.code = WEXITSTATUS(pclose(pipe));
  return said;
}

// ---- files that a command may name

static void provide_photos(const TempFolder& folder) {
  for (const std::string split : {"train", "val"})
    for (const std::string kind : {"cat", "dog"})
      for (int i = 0; i < 8; ++i)
        folder.write(cat("photos/", split, "/", kind, "/", i, ".jpg"), as_jpeg(slopes(40 + i, 40)));
}

static void provide_mnist(const TempFolder& folder) {
  for (const auto& [stem, count] : {std::pair{"train", 32u}, {"t10k", 16u}}) {
    const std::string path = cat("datasets/mnist/", stem);
    folder.write(path + "-images-idx3-ubyte", idx({count, 28, 28}));
    folder.write(path + "-labels-idx1-ubyte", idx({count}));
  }
}

static void provide_cifar10(const TempFolder& folder) {
  for (const std::string name : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                                 "data_batch_5", "test_batch"}) {
    std::string records;
    for (int i = 0; i < 4; ++i) {
      records += static_cast<char>(i % 10);
      for (int k = 0; k < 3072; ++k) records += static_cast<char>(k * (i + 1));
    }
    folder.write(cat("datasets/cifar10/", name, ".bin"), records);
  }
}

// Creates what a command needs by running other printed commands, at the same small sizes.
static Supply made_by(const std::vector<std::string>& commands) {
  return [commands](const TempFolder& folder) {
    for (const std::string& command : commands) {
      const Said said = run_in(folder, planned(command).command);
      EXPECT_EQ(said.code, 0) << command << "\n" << said.text;
    }
  };
}
static const Supply kRun = made_by({"trainer --config configs/lenet.yaml"});

// Word in a command -> function that provides its files. All that fit are called, in this order.
static const std::pair<std::string, Supply> kProvisions[] = {
    {"photos", provide_photos},
    {"folder: datasets/packed", provide_photos},
    {"digit.png", [](const TempFolder& f) { f.write("digit.png", as_png(slopes(28, 28, 1))); }},
    {"mnist", provide_mnist},
    {"cifar10", provide_cifar10},
    {"runs/lenet", kRun},
    {"runs/lenet-2", kRun},
    {"runs/adder", made_by({"trainer --config configs/adder.yaml"})},
    {"report on.json", made_by({"trainer profile --config configs/lenet.yaml --json on.json",
                                "trainer profile --config configs/lenet.yaml --json off.json"})},
    {"folder: datasets/packed",
     made_by({"trainer pack --config configs/resnet50_imagefolder.yaml data.root=photos "
              "--out datasets/packed"})},
    {"resnet50.safetensors",
     made_by({"trainer --config configs/resnet50_imagefolder.yaml data.root=photos",
              "trainer export runs/resnet50_imagefolder resnet50.safetensors"})},
};

// ---- the folder

Workspace::Workspace(const std::string& command) {
  fs::create_directories(folder_.path / "build");
  fs::create_symlink(source_dir() + "/configs", folder_.path / "configs");
  fs::create_symlink(program_dir() + "/trainer", folder_.path / "build/trainer");
  for (const auto& [word, provide] : kProvisions)
    if (command.find(word) != command.npos) provide(folder_);
  if (command.ends_with("report runs")) kRun(folder_);
}

Said Workspace::run(const std::string& command) const { return run_in(folder_, command); }

}  // namespace bellows
