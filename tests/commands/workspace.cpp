#include "tests/commands/workspace.h"
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <fstream>
#include <functional>
#include "tests/commands/printed.h"
#include "tests/data/files.h"
#include "tests/data/image_files.h"
#include "tests/place.h"

namespace bellows {

namespace fs = std::filesystem;
using Supply = std::function<void(const fs::path& folder)>;

static void write(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

static Said run_in(const fs::path& folder, const std::string& command) {
  const std::string line =
      cat("cd '", folder.string(), "' && export PATH=\"$PWD/build:$PATH\" OMP_NUM_THREADS=1 ",
          "OMP_WAIT_POLICY=passive XDG_CACHE_HOME=\"$PWD/cache\"; { ", command, "; } 2>&1");
  FILE* const pipe = popen(line.c_str(), "r");
  Said said;
  for (int c; (c = fgetc(pipe)) != EOF;) said.text += static_cast<char>(c);
  said.code = WEXITSTATUS(pclose(pipe));
  return said;
}

// ---- files that a command may name

static void provide_photos(const fs::path& folder) {
  for (const std::string split : {"train", "val"})
    for (const std::string kind : {"cat", "dog"})
      for (int i = 0; i < 8; ++i)
        write(folder / "photos" / split / kind / cat(i, ".jpg"), as_jpeg(slopes(40 + i, 40)));
}

static void provide_mnist(const fs::path& folder) {
  for (const auto& [stem, count] : {std::pair{"train", 32u}, {"t10k", 16u}}) {
    const std::string path = cat("datasets/mnist/", stem);
    write(folder / (path + "-images-idx3-ubyte"), idx({count, 28, 28}));
    write(folder / (path + "-labels-idx1-ubyte"), idx({count}));
  }
}

static void provide_cifar10(const fs::path& folder) {
  for (const std::string name : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                                 "data_batch_5", "test_batch"}) {
    std::string records;
    for (int i = 0; i < 4; ++i) {
      records += static_cast<char>(i % 10);
      for (int k = 0; k < 3072; ++k) records += static_cast<char>(k * (i + 1));
    }
    write(folder / "datasets/cifar10" / (name + ".bin"), records);
  }
}

// Creates what a command needs by running another printed command, at the same small sizes.
static void make(const fs::path& folder, const std::string& command) {
  const Said said = run_in(folder, planned(command).command);
  EXPECT_EQ(said.code, 0) << command << "\n" << said.text;
}

static void provide_run(const fs::path& folder) {
  make(folder, "trainer --config configs/lenet.yaml");
}
static void provide_adder(const fs::path& folder) {
  make(folder, "trainer --config configs/adder.yaml");
}
static void provide_shards(const fs::path& folder) {
  provide_photos(folder);
  make(folder,
       "trainer pack --config configs/resnet50_imagefolder.yaml data.root=photos "
       "--out datasets/packed");
}
static void provide_profiles(const fs::path& folder) {
  for (const std::string name : {"on", "off"})
    make(folder, cat("trainer profile --config configs/lenet.yaml --json ", name, ".json"));
}
static void provide_weights(const fs::path& folder) {
  make(folder, "trainer --config configs/resnet50_imagefolder.yaml data.root=photos");
  make(folder, "trainer export runs/resnet50_imagefolder resnet50.safetensors");
}

// Word in a command -> function that provides its files.
static const std::vector<std::pair<std::string, Supply>>& provisions() {
  static const std::vector<std::pair<std::string, Supply>> all = {
      {"photos", provide_photos},
      {"digit.png", [](const fs::path& f) { write(f / "digit.png", as_png(slopes(28, 28, 1))); }},
      {"mnist", provide_mnist},
      {"cifar10", provide_cifar10},
      {"runs/lenet", provide_run},
      {"runs/lenet-2", provide_run},
      {"runs/adder", provide_adder},
      {"report on.json", provide_profiles},
      {"folder: datasets/packed", provide_shards},
      {"resnet50.safetensors", provide_weights},
  };
  return all;
}

// ---- the folder

Workspace::Workspace(const std::string& command) {
  std::string name = (fs::temp_directory_path() / "bellows_commands_XXXXXX").string();
  folder_ = mkdtemp(name.data());
  fs::create_directories(folder_ / "build");
  fs::create_symlink(source_dir() + "/configs", folder_ / "configs");
  fs::create_symlink(program_dir() + "/trainer", folder_ / "build/trainer");
  for (const auto& [word, provide] : provisions())
    if (command.find(word) != command.npos) provide(folder_);
  if (command.ends_with("report runs")) provide_run(folder_);
}

Workspace::~Workspace() { fs::remove_all(folder_); }

Said Workspace::run(const std::string& command) const { return run_in(folder_, command); }

}  // namespace bellows
