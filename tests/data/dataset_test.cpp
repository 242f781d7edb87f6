// Readers of MNIST and CIFAR-10, and the data sets that are generated.
#include "data/sets/dataset.h"
#include <omp.h>
#include <numeric>
#include <set>
#include "core/base/crc32c.h"
#include "data/images/transform.h"
#include "data/sets/arrays.h"
#include "tests/data/files.h"
#include "tests/data/options.h"
#include "tests/place.h"
#include "tests/refusal.h"

using namespace bellows;

static std::vector<uint8_t> bytes_of(const Dataset& dataset) {
  std::vector<uint8_t> bytes;
  Scratch scratch;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const Sample sample = dataset.at(i, scratch);
    bytes.insert(bytes.end(), sample.pixels, sample.pixels + sample.shape.numel());
    bytes.push_back(static_cast<uint8_t>(sample.label));
  }
  return bytes;
}

TEST(Mnist, FindsItsFilesWhereverTheyAreUsuallyPut) {
  for (const std::string where : {"", "MNIST/raw/", "FashionMNIST/raw/", "KMNIST/raw/"})
    for (const std::string suffix : {"-idx", ".idx", "-idx.gz", ".idx.gz"}) {
      const TempFolder folder;
      const bool gz = suffix.ends_with(".gz");
      const auto write = [&](const std::string& name, const std::string& bytes) {
        const std::string number = name == "images" ? "3-ubyte" : "1-ubyte";
        folder.write(cat(where, "t10k-", name, suffix.substr(0, 4), number, gz ? ".gz" : ""),
                     gz ? gzip(bytes) : bytes);
      };
      write("images", idx({6, 4, 5}));
      write("labels", idx({6}));
      const auto dataset = make("mnist", Split::test, {{"root", folder.path}});
      EXPECT_EQ(dataset->size(), 6);
      EXPECT_EQ(dataset->info().input.shape, (Shape{1, 4, 5}));
      Scratch scratch;
      EXPECT_EQ(dataset->at(5, scratch).label, 5);
      EXPECT_EQ(dataset->at(1, scratch).pixels[3], 23 % 10);
    }
}

// Some unpackers make a folder of the file's name, with or without the file in it.
TEST(Mnist, PassesOverAFolderOfAFilesName) {
  const TempFolder folder;
  folder.write("t10k-images-idx3-ubyte/other", "");
  folder.write("t10k-images-idx3-ubyte.gz", gzip(idx({6, 4, 5})));
  folder.write("t10k-labels-idx1-ubyte/t10k-labels-idx1-ubyte", idx({6}));
  EXPECT_EQ(make("mnist", Split::test, {{"root", folder.path}})->size(), 6);
}

TEST(Mnist, AsksWhichSetIsMeantUnlessItsOwnIsThere) {
  const TempFolder folder;
  const auto write = [&](const std::string& where, uint32_t count) {
    folder.write(where + "/raw/t10k-images-idx3-ubyte", idx({count, 4, 5}));
    folder.write(where + "/raw/t10k-labels-idx1-ubyte", idx({count}));
  };
  const auto load = [&] { return make("mnist", Split::test, {{"root", folder.path}}); };
  write("KMNIST", 3), write("FashionMNIST", 4);
  EXPECT_THAT(complaint(Exit::data, load),
              AllOf(HasSubstr("/FashionMNIST/raw/t10k-images-idx3-ubyte and "),
                    HasSubstr("/KMNIST/raw/t10k-images-idx3-ubyte are there; name the folder")));
  write("MNIST", 5);
  EXPECT_EQ(load()->size(), 5);
}

TEST(Emnist, TurnsItsImagesAndCountsItsLabelsFrom0) {
  const TempFolder empty;
  EXPECT_THAT(complaint(Exit::data,
                        [&] {
                          make("emnist", Split::test, {{"root", empty.path}});
                        }),
              HasSubstr("no file emnist-balanced-test-images-idx3-ubyte or "));
  for (const std::string where : {"", "EMNIST/raw/", "gzip/"}) {
    const TempFolder folder;
    folder.write(where + "emnist-letters-test-images-idx3-ubyte.gz",
                 gzip(idx_header({2, 2, 3}) + "abcdefABCDEF"));
    folder.write(where + "emnist-letters-test-labels-idx1-ubyte.gz",
                 gzip(idx_header({2}) + "\1\x1a"));
    const auto set = make("emnist", Split::test, {{"root", folder.path}, {"split", "letters"}});
    EXPECT_EQ(set->info().input.shape, (Shape{1, 3, 2}));
    EXPECT_EQ(set->info().classes, 26);
    EXPECT_EQ(bytes_of(*set), (std::vector<uint8_t>{'a', 'd', 'b', 'e', 'c', 'f', 0,  //
                                                    'A', 'D', 'B', 'E', 'C', 'F', 25}));
  }
}

TEST(Emnist, HasTheClassesOfItsSplit) {
  const TempFolder folder;
  const std::map<std::string, int64_t> wanted = {{"byclass", 62}, {"bymerge", 47}, {"balanced", 47},
                                                 {"letters", 26}, {"digits", 10},  {"mnist", 10}};
  for (const auto& [split, classes] : wanted) {
    const std::string begin = cat("emnist-", split, "-train-");
    folder.write(begin + "images-idx3-ubyte", idx({1, 2, 2}));
    folder.write(begin + "labels-idx1-ubyte", idx_header({1}) + "\1");
    const auto set = make("emnist", Split::train, {{"root", folder.path}, {"split", split}});
    EXPECT_EQ(set->info().classes, classes) << split;
  }
}

// Returns `count` records; the first pixel of each is its index.
static std::string records(int count, int first = 0) {
  std::string bytes;
  for (int i = first; i < first + count; ++i)
    bytes += char(i % 10) + std::string(1, char(i)) + std::string(3071, char(7));
  return bytes;
}

TEST(Cifar10, ReadsTheRecordsOfItsFilesInOrder) {
  for (const std::string where : {"", "cifar-10-batches-bin/"}) {
    const TempFolder folder;
    for (int i = 0; i < 5; ++i)
      folder.write(cat(where, "data_batch_", i + 1, ".bin"), records(3, 3 * i));
    folder.write(where + "test_batch.bin", records(2, 40));
    const auto train = make("cifar10", Split::train, {{"root", folder.path}});
    const auto test = make("cifar10", Split::test, {{"root", folder.path}});
    EXPECT_EQ(train->info().input.shape, (Shape{3, 32, 32}));
    ASSERT_EQ(train->size(), 15);
    ASSERT_EQ(test->size(), 2);
    Scratch scratch;
    for (int i = 0; i < 15; ++i) {
      EXPECT_EQ(train->at(i, scratch).label, i % 10);
      EXPECT_EQ(train->at(i, scratch).pixels[0], i);
      EXPECT_EQ(train->at(i, scratch).pixels[3071], 7);
    }
    EXPECT_EQ(test->at(1, scratch).pixels[0], 41);
  }
}

TEST(Cifar100, ReadsFineOrCoarseLabels) {
  std::string record(3074, 'p'), names;
  record[0] = 19, record[1] = 99;
  for (int i = 0; i < 100; ++i) names += cat("fine", i, "\n");
  for (const std::string where : {"", "cifar-100-binary/"}) {
    const TempFolder folder;
    folder.write(where + "train.bin", record + record);
    folder.write(where + "test.bin", record);
    folder.write(where + "fine_label_names.txt", names);
    Scratch scratch;
    const auto fine = make("cifar100", Split::train, {{"root", folder.path}});
    EXPECT_EQ(fine->size(), 2);
    EXPECT_EQ(fine->info().input.shape, (Shape{3, 32, 32}));
    EXPECT_EQ(fine->info().names.at(99), "fine99");
    EXPECT_EQ(fine->at(1, scratch).label, 99);
    EXPECT_EQ(fine->at(1, scratch).pixels[0], 'p');
    const Texts coarse{{"root", folder.path}, {"labels", "coarse"}};
    EXPECT_EQ(make("cifar100", Split::test, coarse)->at(0, scratch).label, 19);
    EXPECT_EQ(make("cifar100", Split::test, coarse)->info().classes, 20);
    record[0] = 20;
    folder.write(where + "test.bin", record);
    EXPECT_THAT(complaint(Exit::data, [&] { make("cifar100", Split::test, coarse); }),
                HasSubstr("test.bin: record 0 has label 20, not one of 0 to 19"));
    record[0] = 19;
  }
}

TEST(Cifar10, NamesItsClassesAsTheFileBesideItDoesOrAsPublished) {
  const TempFolder folder;
  folder.write("test_batch.bin", records(2, 0));
  const auto names = [&] {
    return make("cifar10", Split::test, {{"root", folder.path}})->info().names;
  };
  EXPECT_THAT(names(), ElementsAre("airplane", "automobile", "bird", "cat", "deer", "dog", "frog",
                                   "horse", "ship", "truck"));
  folder.write("batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  EXPECT_THAT(names(), ElementsAre("a", "b", "c", "d", "e", "f", "g", "h", "i", "j"));
  folder.write("batches.meta.txt", "a\nb\n");
  EXPECT_THAT(complaint(Exit::data, names), HasSubstr("batches.meta.txt: 2 names of classes"));
  folder.write("batches.meta.txt", std::string(1 << 17, 'a'));
  EXPECT_THAT(complaint(Exit::data, names),
              HasSubstr("batches.meta.txt: 131072 bytes, at most 65536 are read"));
}

TEST(Cifar10, SaysWhatIsWrongWithItsFiles) {
  const TempFolder folder;
  const auto load = [&](const std::string& test_batch) {
    folder.write("test_batch.bin", test_batch);
    return complaint(Exit::data, [&] { make("cifar10", Split::test, {{"root", folder.path}}); });
  };
  EXPECT_THAT(
      complaint(Exit::data,
                [&] {
                  make("cifar10", Split::train, {{"root", folder.path}});
                }),
      AllOf(HasSubstr("no file data_batch_1.bin"), HasSubstr("tools/fetch_data.sh cifar10")));
  const std::string good = records(3);
  for (const size_t size : {size_t(1), good.size() - 1, good.size() - 3072})
    EXPECT_THAT(load(good.substr(0, size)), HasSubstr("test_batch.bin: "));
  EXPECT_THAT(load(good + "x"), HasSubstr("after 3 of them 1 are left"));
  EXPECT_THAT(load(""), HasSubstr("0 bytes are not whole records"));
  std::string bad = good;
  bad[2 * 3073] = 10;
  EXPECT_THAT(load(bad), HasSubstr("test_batch.bin: record 2 has label 10, not one of 0 to 9"));
}

// In $BELLOWS_DATA, or in shared/data beside the sources.
TEST(RealData, AreReadWhereTheyAre) {
  const char* const given = std::getenv("BELLOWS_DATA");
  const std::string folder = given ? given : source_dir() + "/../shared/data";
  const struct {
    const char* name;
    double mean;
    std::vector<int64_t> labels;                                        // of the first test images
  } sets[] = {{"mnist", 0.1325, {7, 2}}, {"cifar10", 0.4763, {3, 8}}};  // a cat and a ship
  for (const auto& set : sets) {
    DatasetPtr test;
    const std::string missing = refusal([&] {
      test = make(set.name, Split::test, {{"root", cat(folder, "/", set.name)}});
    });
    if (missing.find("tools/fetch_data.sh") != missing.npos) GTEST_SKIP() << missing;
    ASSERT_EQ(test->size(), 10000) << set.name;
    double sum = 0;
    Scratch scratch;
    for (int64_t i = 0; i < test->size(); ++i) {
      const Sample sample = test->at(i, scratch);
      EXPECT_TRUE(i >= 2 || sample.label == set.labels[i]) << set.name << " " << i;
      const int64_t values = sample.shape.numel();
      sum += std::accumulate(sample.pixels, sample.pixels + values, 0.) / double(values);
    }
    EXPECT_NEAR(sum / 10000 / 255, set.mean, 1e-3) << set.name;
  }
}

class Drawn : public testing::TestWithParam<const char*> {
 protected:
  static auto drawn(Split split, int64_t size) {
    const char* const option = split == Split::train ? "train_size" : "test_size";
    return make(GetParam(), split, {{option, std::to_string(size)}});
  }
};
INSTANTIATE_TEST_SUITE_P(Datasets, Drawn, testing::Values("digits", "shapes"),
                         [](const auto& info) { return info.param; });

TEST_P(Drawn, IsTheSameInEveryProcessAndForAnyNumberOfThreads) {
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const auto one = bytes_of(*drawn(Split::train, 700));
  omp_set_num_threads(3);
  const auto three = bytes_of(*drawn(Split::train, 700));
  omp_set_num_threads(threads);
  EXPECT_EQ(one, three);
  // A larger set starts with the smaller one, and the test set differs.
  const auto more = bytes_of(*drawn(Split::train, 701));
  EXPECT_TRUE(std::equal(one.begin(), one.end(), more.begin()));
  EXPECT_NE(one, bytes_of(*drawn(Split::test, 700)));
}

TEST_P(Drawn, HasTheStatisticsThatItNames) {
  const auto dataset = drawn(Split::train, 2000);
  const DatasetInfo& info = dataset->info();
  const int64_t plane = info.input.shape[1] * info.input.shape[2];
  Scratch scratch;
  for (int64_t c = 0; c < info.input.shape[0]; ++c) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < dataset->size(); ++i) {
      const uint8_t* const pixels = dataset->at(i, scratch).pixels + c * plane;
      for (int64_t p = 0; p < plane; ++p) {
        sum += pixels[p] / 255.;
        squares += pixels[p] / 255. * pixels[p] / 255.;
      }
    }
    const double n = double(dataset->size() * plane), mean = sum / n;
    EXPECT_NEAR(mean, info.mean[c], .01);
    EXPECT_NEAR(std::sqrt(squares / n - mean * mean), info.std[c], .01);
  }
}

// A sample is a function of its split and index, whatever was read before it. Sets that need files
// cannot be made here.
TEST(EverySet, HasTheSameSamplesWhateverWasReadBefore) {
  int64_t made = 0;
  for (const std::string& name : DatasetChoice::names())
    for (const Split split : {Split::train, Split::test}) {
      SCOPED_TRACE(name);
      DatasetPtr a, b;
      try {
        a = DatasetChoice(name).make({split});
      } catch (const Error&) {
        continue;
      }
      DatasetChoice(name).make({split == Split::train ? Split::test : Split::train});
      b = DatasetChoice(name).make({split});
      ASSERT_EQ(a->size(), b->size());
      ++made;
      if (const Arrays* x = a->arrays(); x) {
        const auto bytes = [](const Tensor& t) {
          return t.defined() ? std::string(reinterpret_cast<const char*>(t.bytes()), t.nbytes())
                             : "";
        };
        for (const auto tensor : {&Arrays::x, &Arrays::y, &Arrays::offsets})
          EXPECT_EQ(bytes(x->*tensor), bytes(b->arrays()->*tensor));
        continue;
      }
      Scratch first, second;
      std::map<int64_t, std::pair<int64_t, uint32_t>> samples;  // label and checksum
      const auto read = [](const Dataset& set, int64_t i, Scratch& scratch) {
        const Sample s = set.at(i, scratch);
        return std::pair(s.label, crc32c(std::as_bytes(std::span(s.pixels, s.shape.numel()))));
      };
      const int64_t n = std::min<int64_t>(a->size(), 50);
      for (int64_t i = 0; i < n; ++i) samples[i] = read(*a, i, first);
      for (int64_t i = n; i-- > 0;) EXPECT_EQ(read(*b, i, second), samples[i]) << i;
    }
  EXPECT_GE(made, 8);
}

// Scaled down again, the images match those of `shapes`, with the same labels.
TEST(ShapesJpeg, AreTheShapesInOtherSizes) {
  const auto shapes = make("shapes", Split::train, {{"train_size", "200"}});
  const auto jpegs = make("shapes_jpeg", Split::train, {{"train_size", "200"}});
  const auto small = chosen<TransformChoice>("resize", {{"size", "32"}, {"square", "true"}});
  const Transforms shrink({small}, jpegs->info());
  std::set<int64_t> sides;
  Scratch scratch;
  std::vector<float> got(3072);
  double difference = 0;
  for (int64_t i = 0; i < 200; ++i) {
    const Sample wanted = shapes->at(i, scratch);
    Scratch decoded;
    const Sample s = jpegs->at(i, decoded);
    EXPECT_EQ(s.label, wanted.label);
    sides.insert({s.shape[1], s.shape[2]});
    shrink.write(s, 1, 0, i, got.data());
    for (int64_t p = 0; p < 3072; ++p)
      difference += std::abs(255 * got[p] - wanted.pixels[p]) / 3072 / 200;
  }
  EXPECT_GE(*sides.begin(), 64);
  EXPECT_LE(*sides.rbegin(), 160);
  EXPECT_GT(sides.size(), 80u);
  EXPECT_LT(difference, 12);
}
