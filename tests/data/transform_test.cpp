#include "data/transform.h"
#include <gmock/gmock.h>
#include "core/visitor.h"
#include "tests/data/files.h"

using namespace bellows;
using testing::HasSubstr;

// Gives normalize its lists.
class Lists : public Visitor {
 public:
  std::vector<std::string> values;  // mean, then std, one for each channel

 protected:
  void option(const std::string&, const Option& option, const char*) override {
    EXPECT_TRUE(option.read(values.at(read_++)));
  }
  std::optional<size_t> list_size(const std::string&, size_t, const char*) override {
    return values.size() / 2;
  }

 private:
  size_t read_ = 0;
};

static const DatasetInfo kInfo{
    .sample = {2, 3, 5}, .classes = 10, .mean = {.25f, .5f}, .std = {.5f, .125f}};

static std::vector<uint8_t> pixels() {
  std::vector<uint8_t> bytes(30);
  for (int i = 0; i < 30; ++i) bytes[i] = static_cast<uint8_t>(i * 8 + 3);
  return bytes;
}

TEST(Normalize, TakesTheDataSetsOwnStatisticsUnlessToldOthers) {
  const auto in = pixels();
  const Sample sample{in.data(), kInfo.sample, 0};
  std::vector<float> out(32, -7.f);
  Transforms({}, kInfo).write(sample, 1, 0, 0, out.data() + 1);
  for (int i = 0; i < 30; ++i) {
    const double mean = kInfo.mean[i / 15], std = kInfo.std[i / 15];
    EXPECT_NEAR(out[i + 1], (in[i] / 255. - mean) / std, 2e-6) << i;
  }
  EXPECT_EQ(out.front(), -7);
  EXPECT_EQ(out.back(), -7);

  TransformChoice choice("normalize");
  Lists lists;
  lists.values = {"0", "0", "1", "0.5"};
  choice.visit_options(lists);
  Transforms({choice}, kInfo).write(sample, 1, 0, 0, out.data());
  EXPECT_FLOAT_EQ(out[2], in[2] / 255.f);
  EXPECT_FLOAT_EQ(out[17], in[17] / 255.f * 2);
}

TEST(Transforms, RefuseStatisticsOfOtherChannelsAndSamplesOfAnotherShape) {
  DatasetInfo info = kInfo;
  info.mean = {.5f};
  EXPECT_THAT(complaint(Exit::usage, [&] { Transforms({}, info); }),
              HasSubstr("1 means and 2 deviations for 2 channels"));
  const auto in = pixels();
  float out[30];
  EXPECT_THAT(complaint(Exit::data,
                        [&] {
                          Transforms({}, kInfo).write({in.data(), {2, 5, 3}, 0}, 1, 0, 0, out);
                        }),
              HasSubstr("its shape is [2,5,3], the data set's is [2,3,5]"));
}
