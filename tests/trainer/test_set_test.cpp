// A test set that evaluation would refuse is refused before training.
#include <gmock/gmock.h>
#include "data/packed/pack.h"
#include "tests/data/files.h"
#include "tests/data/image_files.h"
#include "tests/data/options.h"
#include "tests/refusal.h"
#include "tests/trainer/runs.h"

using namespace bellows;
using testing::AllOf;
using testing::HasSubstr;

namespace {

// Two classes of two images each, in an image folder; all are at least 6 x 6.
class TestSet : public testing::Test {
 protected:
  TestSet() {
    for (const char* split : {"train", "val"})
      for (const char* label : {"a", "b"})
        for (int i = 0; i < 2; ++i)
          folder_.write(cat(split, "/", label, "/", i, ".png"), as_png(slopes(6 + i, 8)));
  }
  Values crops() const {
    return from_yaml("data.transforms: [{name: center_crop, size: 6}, normalize]");
  }
  // Starts a session on the set. Its notes are notes_ then.
  Refusal start(Values values, const char* set = "image_folder", const char* root = "root") {
    values["data.name"] = {set};
    values[cat("data.", root)] = {folder_.path.string()};
    return refused([&] {
      const Session session(plan_of(from_yaml(R"(
device: cpu
data.batch_size: 2
model: {name: layers, layers: [flatten, {name: linear, out: 2}]}
)"),
                                    values));
      notes_ = session.notes;
    });
  }
  TempFolder folder_;
  std::vector<std::string> notes_;
};

}  // namespace

TEST_F(TestSet, WithAnImageSmallerThanTheCropIsRefusedByItsName) {
  for (const std::string& small : {as_png(slopes(5, 8)), as_jpeg(slopes(8, 5))}) {
    folder_.write("val/b/small.png", small);
    const Refusal refusal = start(crops());
    EXPECT_EQ(refusal.exit, Exit::data);
    EXPECT_THAT(refusal.message, AllOf(HasSubstr("sample 4 ("), HasSubstr("val/b/small.png): "),
                                       HasSubstr("is smaller than the 6x6 to be cut out of it")));
  }
  const Values resized = from_yaml(
      "data.transforms: [{name: resize, size: 6}, {name: center_crop, size: 6}, normalize]");
  EXPECT_EQ(start(resized).message, "no error");
}

TEST_F(TestSet, IsNotNeededWithoutEvaluations) {
  std::filesystem::remove_all(folder_.path / "val");
  EXPECT_THAT(start(crops()).message, HasSubstr("/val: no such folder"));
  Values values = crops();
  values["eval.every"] = {"0"};
  EXPECT_EQ(start(values).message, "no error");
  EXPECT_THAT(
      notes_,
      AllOf(testing::Contains("data: image_folder, 4 to train on, 0 to test"),
            testing::Contains(HasSubstr("data: no test set, which eval.every=0 does not need: "))));
}

TEST_F(TestSet, OfOneClassAndWithStatisticsOfBytesIsWarnedOf) {
  Values values = crops();
  start(values);
  EXPECT_THAT(notes_, testing::Not(testing::Contains(HasSubstr("warning: "))));
  for (const char* split : {"train", "val"})
    std::filesystem::remove_all(folder_.path / split / "b");
  for (const char* c : {"0", "1", "2"}) {
    values[cat("data.transforms.1.mean.", c)] = {"123.7"};
    values[cat("data.transforms.1.std.", c)] = {"58"};
  }
  values["model.layers.1.out"] = {"1"};
  EXPECT_EQ(start(values).message, "no error");
  EXPECT_THAT(notes_,
              AllOf(testing::Contains(HasSubstr("warning: data: only one class, a, so ")),
                    testing::Contains(HasSubstr("warning: normalize: mean [123.7,123.7,123.7], but "
                                                "pixels are scaled to 0..1 before"))));
}

TEST_F(TestSet, WithOtherClassesThanTrainingIsRefused) {
  const auto pack_train = [&](const TempFolder& images, Split as) {
    const auto choice = chosen<DatasetChoice>("image_folder", {{"root", images.path}});
    pack(*choice.make({Split::train}), as, "test", folder_.path);
  };
  const TempFolder more;
  for (const char* label : {"a", "b", "c"})
    more.write(cat("train/", label, "/0.png"), as_png(slopes(6, 6)));
  pack_train(folder_, Split::train);
  pack_train(more, Split::test);
  const Refusal refusal = start(crops(), "packed", "folder");
  EXPECT_EQ(refusal.exit, Exit::data);
  EXPECT_THAT(refusal.message, HasSubstr("its test set has 3 classes, its training set 2"));
}
