// A Plan is plain data: it survives conversion to text and back.
#include "plan/plan.h"
#include <gtest/gtest.h>
#include "core/config/values.h"
#include "tests/refusal.h"

using namespace bellows;

TEST(DeviceChoiceTest, ReadsWhatItPrintsAndNoOtherText) {
  DeviceChoice choice = DeviceChoice::automatic;
  const Option option = option_of(choice, Bounds());
  EXPECT_EQ(option.text, "auto");
  for (const std::string text : {"auto", "cpu", "cuda", "cuda:0", "cuda:15"}) {
    EXPECT_TRUE(option.read(text)) << text;
    EXPECT_EQ(choice.text(), text);
  }
  EXPECT_EQ(choice.kind, DeviceChoice::cuda);
  EXPECT_EQ(choice.gpu, 15);
  for (const std::string text : {"", "CUDA", "gpu", "cpu:0", "cuda:", "cuda:-1", "cuda:01",
                                 "cuda:1x", "cuda: 1", "cuda:99999999999", "cuda:0,1"})
    EXPECT_FALSE(option.read(text)) << text;
  EXPECT_EQ(choice.text(), "cuda:15");
}
