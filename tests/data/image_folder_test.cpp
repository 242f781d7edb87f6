// image_folder: files, labels, and the treatment of damaged images.
#include "data/loader/loader.h"
#include "tests/data/files.h"
#include "tests/data/image_files.h"
#include "tests/data/options.h"
#include "tests/moved.h"
#include "tests/refusal.h"

using namespace bellows;
using Pair = std::pair<int, int>;

static DatasetPtr make(const TempFolder& folder, Split split, Texts options = {}) {
  options.emplace("root", folder.path);
  return make("image_folder", split, options);
}

static std::string complaint_of(const TempFolder& folder, Split split, const Texts& options = {}) {
  return complaint(Exit::data, [&] { make(folder, split, options); });
}

// PNG of one gray.
static std::string plain(int grey) {
  Pixels p = slopes(6, 8);
  std::ranges::fill(p.bytes, uint8_t(grey));
  return as_png(p);
}

// Gray and label of each sample, in order.
static std::vector<std::pair<int, int>> contents(const Dataset& dataset) {
  std::vector<std::pair<int, int>> all;
  Scratch scratch;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const Sample s = dataset.at(i, scratch);
    all.emplace_back(s.pixels[0], int(s.label));
  }
  return all;
}

TEST(ImageFolder, SortsClassesAndFiles) {
  const TempFolder folder;
  folder.write("train/dog/b.png", plain(3));
  folder.write("train/dog/a.PNG", plain(2));
  folder.write("train/cat/more/z.png", plain(1));
  folder.write("train/cat/notes.txt", "no picture");
  folder.write("val/cat/q.png", plain(4));
  folder.write("val/dog/r.jpg", as_jpeg(slopes(9, 5)));
  const auto train = make(folder, Split::train), val = make(folder, Split::test);
  EXPECT_THAT(contents(*train), ElementsAre(Pair{1, 0}, Pair{2, 1}, Pair{3, 1}));
  EXPECT_EQ(train->info().classes, 2);
  EXPECT_THAT(train->info().names, ElementsAre("cat", "dog"));
  EXPECT_EQ(train->info().input.shape, (Shape{3, 0, 0}));
  EXPECT_THAT(train->origin(0), HasSubstr("train/cat/more/z.png"));
  EXPECT_EQ(val->size(), 2);
  Scratch scratch;
  EXPECT_EQ(val->at(1, scratch).shape, (Shape{3, 9, 5}));
}

TEST(ImageFolder, HoldsOutEveryNthPicture) {
  const TempFolder folder;
  for (int i = 0; i < 7; ++i) folder.write(cat("a/", i, ".png"), plain(i));
  for (int i = 0; i < 2; ++i) folder.write(cat("b/", i, ".png"), plain(8 + i));
  EXPECT_THAT(contents(*make(folder, Split::test, {{"hold_out", "3"}})),
              ElementsAre(Pair{0, 0}, Pair{3, 0}, Pair{6, 0}, Pair{8, 1}));
  EXPECT_THAT(contents(*make(folder, Split::train, {{"hold_out", "3"}})),
              ElementsAre(Pair{1, 0}, Pair{2, 0}, Pair{4, 0}, Pair{5, 0}, Pair{9, 1}));
}

TEST(ImageFolder, SaysWhatIsWrong) {
  const TempFolder folder;
  EXPECT_THAT(complaint_of(folder, Split::train),
              AllOf(HasSubstr("/train: no such folder"),
                    HasSubstr("data.root, data.train or, if the folders in "),
                    HasSubstr(" are the classes,  data.hold_out=5")));
  folder.write("train/readme", "");
  EXPECT_THAT(complaint_of(folder, Split::train), HasSubstr("no folder of a class"));
  folder.write("train/a/readme", "");
  EXPECT_THAT(complaint_of(folder, Split::train), HasSubstr("no image for"));
  folder.write("train/a/x.png", plain(1));
  folder.write("val/b/x.png", plain(1));
  EXPECT_THAT(complaint_of(folder, Split::test),
              AllOf(HasSubstr("other classes than in"), HasSubstr(": a is only in /")));
  EXPECT_THAT(complaint_of(folder, Split::test, {{"test", "none"}}),
              AllOf(HasSubstr("/none: no such folder"), HasSubstr("data.root, data.test")));
}

TEST(ImageFolder, RefusesClassesWithoutAnImageInTraining) {
  const TempFolder folder;
  for (const std::string split : {"train/", "val/"}) {
    for (const char* name : {"cat/a.png", "dog/a.txt", "fox/b.png"})
      folder.write(split + name, plain(1));
    std::filesystem::create_directory(folder.path / split / "emu");
  }
  EXPECT_THAT(complaint_of(folder, Split::train),
              HasSubstr("/train: no image for dog, emu; add images (.jpg, "));
  EXPECT_EQ(make(folder, Split::test)->size(), 2) << "a test set may lack a class";
  const Texts below{{"root", folder.path / "train"}, {"hold_out", "2"}};
  EXPECT_THAT(complaint_of(folder, Split::train, below),
              HasSubstr("no image is left to train on for cat, dog, emu, "))
      << "the only image of a cat is held out";
  EXPECT_THAT(complaint_of(folder, Split::train, {{"hold_out", "2"}}),
              HasSubstr("train and val are splits, not classes; leave data.hold_out out"));
}

TEST(ImageFolder, NamesTheClassesOfTheModelIfOneIsUnknown) {
  const TempFolder folder;
  folder.write("val/bear/x.png", plain(1));
  const auto chosen_with = [&](const std::vector<std::string>& classes) {
    return complaint(Exit::data, [&] {
      chosen<DatasetChoice>("image_folder", {{"root", folder.path}}).make({Split::test, classes});
    });
  };
  EXPECT_THAT(chosen_with({"cat", "dog"}),
              HasSubstr("/bear: not one of the model's 2 classes (cat, dog); rename or move"));
  EXPECT_THAT(chosen_with({"ant", "cat", "dog", "elk"}),
              HasSubstr("not one of the model's 4 classes (ant, cat, dog, ...); "));
}

TEST(ImageFolder, RefusesAHoldOutOfEverythingOrBesideFoldersOfSplits) {
  const auto refusal_of = [](const Texts& options) {
    return refusal([&] { chosen<DatasetChoice>("image_folder", options); });
  };
  EXPECT_THAT(refusal_of({{"hold_out", "1"}}), HasSubstr("hold_out must be 0, or 2 or more"));
  for (const char* split : {"train", "test"})
    EXPECT_THAT(refusal_of({{"hold_out", "5"}, {split, "other"}}),
                HasSubstr(cat(split, " must be left out with hold_out")));
  EXPECT_EQ(refusal_of({{"hold_out", "5"}}), "no error");
}

TEST(ImageFolder, CountsWhatItLeavesOutByKind) {
  const TempFolder folder;
  folder.write("train/a/0.png", plain(0));
  folder.write("train/a/more/1.png", plain(1));
  const auto link = [&](const char* to, const char* name) {
    std::filesystem::create_symlink(to, folder.path / name);
  };
  link("0.png", "train/a/to_it.png");
  const auto train = [&] { return make(folder, Split::train); };
  EXPECT_THAT(train()->notes(), IsEmpty());
  link("nowhere.png", "train/a/more/gone.png");
  const std::string where = "warning: " + (folder.path / "train").string() + ": ";
  EXPECT_THAT(train()->notes(), ElementsAre(where + "1 left out: broken link 1; the first is " +
                                            (folder.path / "train/a/more/gone.png").string()));
  link("circle.jpg", "train/a/circle.jpg");
  link("/no/such/class", "train/b");
  for (const char* name : {"1.gif", "2.GIF", "more/3.gif", "x.tiff", "README"})
    folder.write(cat("train/a/", name), "?");
  folder.write("train/stray.png", plain(2));
  EXPECT_THAT(train()->notes(),
              ElementsAre(where +
                          "9 left out: .gif 3, .tiff 1, broken link 3, outside of a class folder "
                          "1, without a suffix 1; the first is " +
                          (folder.path / "train/b").string()));
  EXPECT_EQ(train()->size(), 3);
  EXPECT_EQ(train()->info().classes, 1);
}

TEST(ImageFolder, ReadsTheFormatsThatTorchvisionReads) {
  const TempFolder folder;
  for (const char* name : {"a.bmp", "b.ppm", "c.PGM", "d.pnm", "e.webp", "f.jpeg"})
    folder.write(cat("train/a/", name), "P5 1 1 255\n" + std::string(1, name[0]));
  const auto train = make(folder, Split::train);
  EXPECT_THAT(train->notes(), IsEmpty());
  EXPECT_THAT(contents(*train), ElementsAre(Pair{'a', 0}, Pair{'b', 0}, Pair{'c', 0}, Pair{'d', 0},
                                            Pair{'e', 0}, Pair{'f', 0}));
}

// A link to a folder leads to images that count once, also if it leads back to where it is.
TEST(ImageFolder, FollowsLinksToFoldersButNoLoops) {
  const TempFolder folder;
  folder.write("train/a/0.png", plain(0));
  folder.write("elsewhere/deep/1.png", plain(1));
  const auto link = [&](const char* to, const char* name) {
    std::filesystem::create_directory_symlink(to, folder.path / name);
  };
  link("../../elsewhere", "train/a/linked");
  EXPECT_THAT(make(folder, Split::train)->notes(), IsEmpty());
  link("..", "elsewhere/deep/up");
  link(".", "train/a/self");
  link("../../elsewhere/deep", "train/a/z");
  const auto train = make(folder, Split::train);
  ASSERT_EQ(train->size(), 2);
  EXPECT_THAT(train->origin(1), HasSubstr("train/a/linked/deep/1.png"));
  EXPECT_THAT(train->notes(),
              ElementsAre(HasSubstr("/train: 3 left out: link to a folder that is read already 3; "
                                    "the first is ")));
}

TEST(ImageFolder, NamesWhatItFindsInPrintableCharacters) {
  const TempFolder folder;
  const std::string bad = "\x1b[2J";
  folder.write("train/" + bad + "/" + bad + ".png", plain(1));
  folder.write("val/b/x.png", plain(1));
  const auto train = make(folder, Split::train);
  EXPECT_THAT(train->origin(0), HasSubstr("/train/\\x1b[2J/\\x1b[2J.png"));
  EXPECT_THAT(train->info().names, ElementsAre("\\x1b[2J"));
  Scratch scratch;
  EXPECT_EQ(train->at(0, scratch).pixels[0], 1) << "its file is found all the same";
  EXPECT_THAT(complaint_of(folder, Split::test), HasSubstr(": \\x1b[2J is only in /"));
  EXPECT_THAT(complaint_of(folder, Split::train, {{"train", bad}}),
              HasSubstr("/\\x1b[2J: no such folder"));
}

// ---- damaged images

// Grays of an epoch, as the model receives them.
static std::vector<int> epoch_of(const DatasetPtr& dataset, const LoaderOptions& options,
                                 int64_t epoch = 0) {
  const std::vector transforms{chosen<TransformChoice>("center_crop", {{"size", "2"}})};
  Loader loader(dataset, transforms, options, 1);
  loader.start(epoch);
  std::vector<int> greys;
  for (Batch batch; loader.next(batch);)
    for (int64_t i = 0; i < batch.size(); ++i)
      greys.push_back(int(std::lround(255 * batch.x.ptr<float>()[12 * i])));
  return greys;
}

// Half of a class is damaged, as by files that another system leaves beside each image. Each epoch
// has each of the others once, in any order and for any number of workers.
TEST(Damaged, LeavesTheEpochSoThatEachOtherSampleIsThereOnce) {
  const TempFolder folder;
  std::vector<int> readable;
  for (int i = 0; i < 30; ++i) {
    readable.push_back(10 + i);
    folder.write(cat("train/a/", i, ".png"), plain(10 + i));
    folder.write(cat("train/a/._", i, ".png"), std::string("\0\5\x16\7", 4));
  }
  const std::string broken = folder.write("train/b/4.png", plain(0).substr(0, 60));
  folder.write("train/b/5.png", plain(50));
  readable.push_back(50);
  testing::internal::CaptureStderr();
  const Moved opens("data.file_opens");
  const auto left = without_damaged(make(folder, Split::train), OnDamaged::skip);
  EXPECT_EQ(opens, 62) << "each file is read once";
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(told, '\n'), 31);
  EXPECT_THAT(told, AllOf(HasSubstr("warning: " + broken + ": skipped: PNG: "),
                          HasSubstr("/._29.png: skipped: a macOS metadata (._) file; only ")));
  EXPECT_EQ(left->damaged(), 31);
  EXPECT_EQ(left->damaged_text(), "31 damaged samples left out (a 30, b 1)");
  EXPECT_THAT(left->notes(), ElementsAre("warning: data: 31 damaged samples left out (a 30, b 1)"));
  std::vector<std::vector<int>> orders;
  for (const int64_t workers : {0, 3}) {
    const LoaderOptions options{.sampler = {.batch_size = 4},
                                .batch = {.on_damaged = OnDamaged::skip},
                                .workers = {.num_workers = workers}};
    for (const int64_t epoch : {0, 1}) {
      orders.push_back(epoch_of(left, options, epoch));
      EXPECT_THAT(orders.back(), testing::UnorderedElementsAreArray(readable));
    }
  }
  EXPECT_EQ(orders[0], orders[2]);
  EXPECT_EQ(opens, 62 + 4 * 31);
}

TEST(Damaged, IsNamedIfItWasReadableWhenTheSetWasOpened) {
  const TempFolder folder;
  for (int i = 0; i < 3; ++i) folder.write(cat("train/a/", i, ".png"), plain(10 + i));
  const auto left = without_damaged(make(folder, Split::train), OnDamaged::skip);
  folder.write("train/a/1.png", "");
  EXPECT_THAT(
      complaint(Exit::data, [&] { epoch_of(left, {.batch = {.on_damaged = OnDamaged::skip}}); }),
      AllOf(HasSubstr("train/a/1.png): the file is empty; it could be read when ")));
}

TEST(Damaged, EndsTheRunIfNothingCanBeRead) {
  const TempFolder folder;
  for (int i = 0; i < 20; ++i) folder.write(cat("train/a/", 10 + i, ".png"), "");
  testing::internal::CaptureStderr();
  EXPECT_THAT(
      complaint(Exit::data, [&] { without_damaged(make(folder, Split::train), OnDamaged::skip); }),
      HasSubstr("a/10.png: damaged, like all samples of the data set"));
  testing::internal::GetCapturedStderr();
}
