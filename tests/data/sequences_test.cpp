// Data sets that have no images: sums, text, lines, csv, npy. What they deliver, and what they
// refuse.
#include "data/sets/arrays.h"
#include "tests/data/files.h"
#include "tests/data/options.h"

using namespace bellows;

namespace {

DatasetPtr open(Texts texts, Split split = Split::train) {
  const std::string name = texts.extract("name").mapped();
  return make(name, split, texts);
}
std::string refusal(const Texts& texts, Split split = Split::train) {
  return complaint(Exit::data, [&] { open(texts, split); });
}

std::vector<int64_t> ints(const Tensor& t) {
  return {t.ptr<int64_t>(), t.ptr<int64_t>() + t.numel()};
}

// Row i of x or y, if samples vary.
std::vector<int64_t> sample(const Arrays& a, const Tensor& part, int64_t i) {
  const auto offsets = a.offsets.data<int64_t>();
  return {part.ptr<int64_t>() + offsets[i], part.ptr<int64_t>() + offsets[i + 1]};
}

struct Sets : testing::Test {
  const TempFolder folder;
};

// ---- sums

TEST_F(Sets, SumsAreRightAndOnlyTheirAnswersCount) {
  const DatasetPtr set = open({{"name", "sums"}, {"train_size", "200"}, {"digits", "2"}});
  const Arrays& a = *set->arrays();
  for (int64_t i = 0; i < 200; ++i) {
    std::string text;
    for (const int64_t token : sample(a, a.x, i)) text += set->info().names[token];
    const size_t plus = text.find('+'), equals = text.find('=');
    std::string answer = text.substr(equals + 1);
    std::ranges::reverse(answer);
    EXPECT_EQ(std::stoi(text) + std::stoi(text.substr(plus + 1)), std::stoi(answer)) << text;
    const std::vector<int64_t> y = sample(a, a.y, i), x = sample(a, a.x, i);
    for (size_t k = 0; k < y.size(); ++k) {
      const int64_t next = k + 1 < x.size() ? x[k + 1] : 12;  // 12: the end
      EXPECT_EQ(y[k], k < equals ? -1 : next);
    }
    EXPECT_EQ(a.targets.ptr<int64_t>()[i], int64_t(answer.size()) + 1);
  }
}

// ---- text and lines

TEST_F(Sets, TextHasWindowsWhoseTargetsAreTheNextBytes) {
  const Texts texts = {{"name", "text"},
                       {"file", folder.write("t.txt", "abcdefghijk")},
                       {"length", "3"},
                       {"test_every", "3"}};
  const DatasetPtr train = open(texts), test = open(texts, Split::test);
  EXPECT_EQ(train->size(), 2);
  EXPECT_EQ(test->size(), 1);
  const Tensor x = test->arrays()->x, y = test->arrays()->y;
  EXPECT_EQ(std::string(x.ptr<uint8_t>(), x.ptr<uint8_t>() + 3), "ghi");
  EXPECT_EQ(std::string(y.ptr<uint8_t>(), y.ptr<uint8_t>() + 3), "hij");
}

TEST_F(Sets, LinesCountWhatFollowsTheTab) {
  const DatasetPtr set = open({{"name", "lines"}, {"file", folder.write("l.txt", "ab\tcd\nef\n")}});
  const Arrays& a = *set->arrays();
  EXPECT_THAT(sample(a, a.x, 0), ElementsAre('a', 'b', '\t', 'c', 'd'));
  EXPECT_THAT(sample(a, a.y, 0), ElementsAre(-1, -1, 'c', 'd', '\n'));
  EXPECT_THAT(sample(a, a.y, 1), ElementsAre('f', '\n'));
}

TEST_F(Sets, LinesHaveLabelsThatTheTrainingFileKnows) {
  const std::string train = folder.write("l.txt", "good\tyes\nbad\tno\n");
  const Texts texts = {{"name", "lines"},
                       {"file", train},
                       {"target", "label"},
                       {"test_file", folder.write("test.txt", "fine\tmaybe\n")}};
  EXPECT_THAT(open(texts)->info().names, ElementsAre("no", "yes"));
  EXPECT_THAT(ints(open(texts)->arrays()->y), ElementsAre(1, 0));
}

TEST_F(Sets, LinesRefuseWhatIsNoSample) {
  const auto lines = [&](const std::string& content, const char* longest = "9") {
    return refusal(
        {{"name", "lines"}, {"file", folder.write("l.txt", content)}, {"longest", longest}});
  };
  EXPECT_THAT(lines("ab\n\ncd\n"), HasSubstr("l.txt, line 2: is empty"));
  EXPECT_THAT(lines("ab\xff\n"), HasSubstr("line 1: byte 2 is not UTF-8 text"));
  EXPECT_THAT(lines("ab\nabcdefghijk\n"), HasSubstr("line 2: 11 bytes, and data.longest is 9"));
  EXPECT_THAT(lines("ab\r\n"), HasSubstr("line 1: ends in a carriage return"));
}

// ---- csv

constexpr const char* kTable = "height,color,kind\n1,red,a\n2,blue,b\n3,red,a\n4,blue,b\n";

TEST_F(Sets, CsvStandardizesNumbersByTheTrainingRowsAndHasAPlaceForEachCategory) {
  const Texts texts = {{"name", "csv"},
                       {"file", folder.write("t.csv", kTable)},
                       {"target", "kind"},
                       {"test_every", "4"}};
  const DatasetPtr train = open(texts), test = open(texts, Split::test);
  EXPECT_THAT(train->info().names, ElementsAre("a", "b"));
  const Tensor x = train->arrays()->x;
  EXPECT_EQ(x.shape(), (Shape{3, 3}));  // height, blue, red
  const float step = std::sqrt(1.5f);   // rows 1, 2, 3: mean 2, variance 2 / 3
  EXPECT_THAT(std::vector<float>(x.ptr<float>(), x.ptr<float>() + 6),
              testing::Pointwise(testing::FloatEq(), {-step, 0.f, 1.f, 0.f, 1.f, 0.f}));
  EXPECT_FLOAT_EQ(test->arrays()->x.ptr<float>()[0], 2 * step);
  EXPECT_THAT(ints(test->arrays()->y), ElementsAre(1));
}

TEST_F(Sets, CsvRefusesDamageWithItsLine) {
  const auto csv = [&](const std::string& content) {
    return refusal({{"name", "csv"}, {"file", folder.write("t.csv", content)}, {"target", "kind"}});
  };
  const std::string start = "height,kind\n1,a\n";
  EXPECT_THAT(csv(start + "2\n"), HasSubstr("t.csv, line 3: 1 cell, the first line has 2"));
  EXPECT_THAT(csv(start + ",b\n"), HasSubstr("line 3: an empty cell"));
  EXPECT_THAT(csv(start + "nan,b\n"), HasSubstr("line 3: column height: nan is not a finite"));
  EXPECT_THAT(csv("\xef\xbb\xbf" + start), HasSubstr("line 1: a byte order mark"));
  EXPECT_THAT(csv("height,kind\r\n1,a\r\n"), HasSubstr("line 1: a carriage return"));
  EXPECT_THAT(csv(start + "\"2,b\n"), HasSubstr("line 3"));
  EXPECT_THAT(csv(start + "\"" + std::string(3 << 20, 'x')), HasSubstr("more than 1 MiB"));
  EXPECT_THAT(csv("height,other\n1,a\n"), HasSubstr("no column kind; it has height, other"));
  EXPECT_THAT(csv("height,kind\n"), HasSubstr("no rows"));
  const Texts split = {{"name", "csv"},
                       {"file", folder.write("t.csv", "c,kind\nred,a\nblue,a\n")},
                       {"target", "kind"},
                       {"test_every", "2"}};
  EXPECT_THAT(refusal(split, Split::test),
              HasSubstr("line 3: column c: the category blue is not among"));
}

// ---- npy

TEST_F(Sets, NpyRefusesWhatItCannotHold) {
  const std::string y = folder.write("y.npy", npy("<i8", "1,", data_of<int64_t>({0})));
  const auto x = [&](const std::string& content) {
    return refusal({{"name", "npy"}, {"x", folder.write("x.npy", content)}, {"y", y}});
  };
  const std::string one = data_of<float>({1});
  EXPECT_THAT(x(npy("|O", "1,", one)), HasSubstr("x.npy: holds pickled Python objects"));
  EXPECT_THAT(x(npy("<f4", "1,", one, "True")), HasSubstr("in Fortran order"));
  EXPECT_THAT(x(npy(">f4", "1,", one)), HasSubstr("big-endian"));
  EXPECT_THAT(x(npy("<f4", "9999999999999,", one)), HasSubstr("shape (9999999999999,)"));
  EXPECT_THAT(x(npy("<f4", "2,", one)), HasSubstr("4 bytes of data, its header claims [2] of 4"));
  EXPECT_THAT(x("PK\x03\x04 a zip file of arrays"), HasSubstr("not in NumPy's .npy format"));
  EXPECT_THAT(x(npy("<f4", "1,", data_of<float>({NAN}))), HasSubstr("element 0 is not a finite"));
  EXPECT_THAT(x(npy("<f4", "2,", data_of<float>({1, 2}))), HasSubstr("1 targets for 2 inputs"));
}

}  // namespace
