// Folders of classes may have any name that a file system accepts. Printed and saved names are
// UTF-8.
#include <gmock/gmock.h>
#include "tests/data/image_files.h"
#include "tests/trainer/program.h"

using namespace bellows;
using testing::HasSubstr;

// Latin-1, as in an old archive.
TEST_F(Program, ClassesWhoseFoldersAreNotUtf8AreTrainedEvaluatedAndPredicted) {
  for (const std::string split : {"train", "val"})
    for (const std::string label : {"caf\xe9", "tea"})
      for (const std::string name : {"0.png", "1.png"})
        write("images/" + split + "/" + label + "/" + name, as_png(slopes(8, 8)));
  const Ended trained =
      run(tiny({"model={name: layers, layers: [flatten, {name: linear, out: 2}]}",
                "data={name: image_folder, root: images, batch_size: 2, transforms: "
                "[{name: center_crop, size: 8}, normalize]}"}));
  EXPECT_EQ(trained.code, 0) << trained.err;
  const Ended evaluated = run({"eval", "runs/run"});
  EXPECT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_THAT(evaluated.out, HasSubstr("eval: 4 samples, "));
  write("picture.png", as_png(slopes(8, 8)));
  const Ended predicted = run({"predict", "runs/run", "picture.png"});
  EXPECT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_THAT(predicted.out, HasSubstr("class 0 caf"));
  EXPECT_EQ(run({"train", "--resume", "runs/run"}).code, 0);
}
