// Layers that are initialized from the training images read them as training does: a damaged image
// is skipped or ends the run.
#include <gmock/gmock.h>
#include "core/config/values.h"
#include "tests/data/files.h"
#include "tests/data/image_files.h"
#include "trainer/session/session.h"

using namespace bellows;
using testing::AllOf;
using testing::HasSubstr;

namespace {

// Two classes of three images; the first image is damaged.
class TrainingImages : public testing::Test {
 protected:
  TrainingImages() {
    for (const char* split : {"train", "val"})
      for (const char* label : {"a", "b"})
        for (int i = 0; i < 3; ++i)
          folder_.write(cat(split, "/", label, "/", i, ".png"), as_png(slopes(6 + i, 8)));
    folder_.write("train/a/0.png", "no picture");
  }
  Plan plan(const char* on_damaged) const {
    return load(Plan{}, {{"device", {"cpu"}},
                         {"data", {"image_folder"}},
                         {"data.root", {folder_.path.string()}},
                         {"data.on_damaged", {on_damaged}},
                         {"data.batch_size", {"2"}},
                         {"data.transforms.0.name", {"center_crop"}},
                         {"data.transforms.0.size", {"6"}},
                         {"data.transforms.1.name", {"normalize"}},
                         {"model", {"layers"}},
                         {"model.layers.0.name", {"whitening"}},
                         {"model.layers.1.name", {"flatten"}},
                         {"model.layers.2.name", {"linear"}},
                         {"model.layers.2.out", {"2"}}});
  }
  TempFolder folder_;
};

}  // namespace

TEST_F(TrainingImages, SkipADamagedOneWhereTrainingDoes) {
  testing::internal::CaptureStderr();
  const Session session(plan("skip"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("train/a/0.png"), HasSubstr("skipped")));
  const Tensor filters = session.model->buffers().front().tensor;
  EXPECT_EQ(filters.shape(), (Shape{24, 3, 2, 2}));
  for (const float w : filters.data<float>()) EXPECT_TRUE(std::isfinite(w));
}

TEST_F(TrainingImages, NameADamagedOneThatEndsTheRun) {
  EXPECT_THAT(complaint(Exit::data, [&] { Session session(plan("error")); }),
              AllOf(HasSubstr("sample 0"), HasSubstr("train/a/0.png")));
}
