// Pipes where files are expected, and a program started without its standard descriptors.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>
#include <nlohmann/json.hpp>
#include "core/base/json.h"
#include "tests/trainer/program.h"

using namespace bellows;
namespace fs = std::filesystem;
using testing::HasSubstr;

class SpecialFiles : public Program {
 protected:
  void make_pipe(const fs::path& path) {
    fs::remove(folder_ / path);
    fs::create_directories((folder_ / path).parent_path());
    ASSERT_EQ(mkfifo((folder_ / path).c_str(), 0600), 0) << path;
  }
  // Ends after 20 s, since a program that waits for a pipe would wait forever.
  Ended run_in_time(const Args& args) {
    return run(args, [] { alarm(20); });
  }
  void expect_refused(const fs::path& pipe, const Args& args, int code) {
    SCOPED_TRACE(pipe);
    make_pipe(pipe);
    const Ended ended = run_in_time(args);
    EXPECT_EQ(ended.code, code) << ended.err << ended.out;
    EXPECT_THAT(ended.err, HasSubstr(pipe.filename().string() + ": not a regular file"));
    EXPECT_EQ(std::ranges::count(ended.err, '\n'), 1);
  }
};

TEST_F(SpecialFiles, PipesInPlaceOfInputAreRefused) {
  succeed(tiny({}));
  write("based.yaml", "base: pipe.yaml\n");
  expect_refused("pipe.yaml", {"--config", "pipe.yaml"}, 2);
  expect_refused("pipe.yaml", {"--config", "based.yaml"}, 2);
  expect_refused("weights", tiny({"train.weights=weights"}), 4);
  expect_refused("image.png", {"predict", "runs/run", "image.png"}, 3);
  for (const char* bad : {"mnist/train-images-idx3-ubyte", "mnist/train-labels-idx1-ubyte"}) {
    fs::remove_all(folder_ / "mnist");
    write_mnist();
    expect_refused(bad, tiny({"data={name: mnist, root: mnist}"}), 3);
  }
}

TEST_F(SpecialFiles, PipesInARunFolderAreRefused) {
  const Args longer = tiny({"--resume", "train.epochs=3"});
  succeed(tiny({"ckpt.every=0"}));  // one checkpoint, the last
  expect_refused("runs/run/metrics.jsonl", longer, 8);
  fs::remove(folder_ / "runs/run/metrics.jsonl");
  expect_refused("runs/run/.lock", longer, 8);
  fs::remove(folder_ / "runs/run/.lock");
  expect_refused("runs/run/checkpoints/step_00000008.safetensors", {"eval", "runs/run"}, 4);
}

TEST_F(SpecialFiles, PipesAmongDataAreRefused) {
  const Args pack = {"pack", "data={name: digits, train_size: 20, test_size: 20}", "--out",
                     "packed"};
  ASSERT_EQ(run_in_time(pack).code, 0);
  for (const char* name : {"packed/train-00000.shard", "packed/test-00000.shard"}) {
    const std::string whole = read(name);
    expect_refused(name, tiny({"data={name: packed, folder: packed, batch_size: 4}"}), 3);
    fs::remove(folder_ / name);
    write(name, whole);
  }
  for (const char* file : {"a/1.png", "b/1.png"}) {
    make_pipe(fs::path("images/train") / file);
    make_pipe(fs::path("images/val") / file);
  }
  const Ended ended = run_in_time(tiny({"data={name: image_folder, root: images, batch_size: 1}"}));
  EXPECT_EQ(ended.code, 3) << ended.err;
}

// Otherwise the first files that a program opens would get these descriptors and receive its
// output.
TEST_F(SpecialFiles, ClosedStandardDescriptorsWriteIntoNoFile) {
  for (const std::vector<int>& closed : {std::vector{0}, {1}, {2}, {1, 2}, {0, 1, 2}}) {
    fs::remove_all(folder_ / "runs");
    const Ended ended = run(tiny({}), [&] {
      for (const int descriptor : closed) close(descriptor);
    });
    SCOPED_TRACE(testing::PrintToString(closed));
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_THAT(read("runs/run/.lock"), testing::MatchesRegex("process [0-9]+ on [^ \n]+"));
    EXPECT_EQ(rows("runs/run").size(),
              7u);  // as in a run with all three: 4 of training, 2 of evaluation, the totals
    EXPECT_EQ(read("runs/run/plan.yaml").find("epoch: "), std::string::npos);
  }
}
