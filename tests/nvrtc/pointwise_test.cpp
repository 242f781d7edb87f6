// Chains as CUDA source, compiled here without a GPU: all of them compile, round as specified, and
// none is compiled twice.
#include "ops/chain/pointwise.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <fstream>
#include "ops/vendor/nvrtc.h"
#include "tests/moved.h"
#include "tests/place.h"
#include "tests/refusal.h"

using namespace bellows;
namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

namespace {

class Nvrtc : public testing::Test {
 protected:
  void SetUp() override {
    if (!nvrtc::available()) GTEST_SKIP() << "there is no NVRTC library";
    fs::remove_all(folder);
  }
  void TearDown() override { fs::remove_all(folder); }

  const Path folder = fs::temp_directory_path() / cat("bellows_nvrtc_", getpid());
};

const Chain& scaled() {
  static const Chain chain("relu(x * scale + shift)", {"x", "scale", "shift"});
  return chain;
}

// Returns the chain of a registered spec, whose variant is its text.
Chain chain_of(const OpSpec& op) {
  const std::vector<std::string> names[] = {{"x"}, {"a", "b"}, {"x", "scale", "shift"}};
  return Chain(op.variant, names[op.cases[0].size() - 1]);
}
StepProgram derivative_of(const Chain& chain) {
  return derivative(chain.program(), std::vector<bool>(chain.inputs().size(), true)).program;
}

}  // namespace

TEST_F(Nvrtc, IsAskedForALineForEachStep) {
  const Chain chain("maximum(x, 0.5) / (2 * y - 3)", {"x", "y"});
  const std::string source = nvrtc::pointwise_source(chain.program(), DType::bf16);
  EXPECT_THAT(source, HasSubstr("using T = Bf16;\n"
                                "constexpr int kInputs = 2, kOutputs = 1;\n"));
  EXPECT_THAT(source,
              HasSubstr(cat("    const A v0 = x[0];\n"
                            "    const A v1 = rounded(A(0x1p-1));\n"
                            "    const A v2 = step<",
                            op_named("maximum"),
                            ">(v0, v1);  // maximum\n"
                            "    const A v3 = x[1];\n"
                            "    const A v4 = step<0>(v3, A(0x1p+1), A(0x0p+0));  // affine\n"
                            "    const A v5 = step<0>(v4, A(0x1p+0), A(-0x1.8p+1));  // affine\n"
                            "    const A v6 = step<",
                            op_named("div"),
                            ">(v2, v5);  // div\n"
                            "    y[0] = v6;\n")));
}

TEST_F(Nvrtc, CompilesEveryChainThatIsTestedInBothDirections) {
  int chains = 0;
  for (const OpSpec& op : op_specs()) {
    if (std::string(op.name) != "pointwise") continue;
    const Chain chain = chain_of(op);
    for (const StepProgram& program : {chain.program(), derivative_of(chain)}) {
      const std::string source = nvrtc::pointwise_source(program, DType::f32);
      EXPECT_THAT(nvrtc::compile(source, "compute_90"), HasSubstr(".entry pointwise("))
          << op.variant;
    }
    ++chains;
  }
  EXPECT_GT(chains, 5);
}

TEST_F(Nvrtc, MakesMachineCodeForEveryTypeOfElement) {
  const Chain chain("gelu(x) / y + sqrt(exp(x))", {"x", "y"});
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    const std::string source = nvrtc::pointwise_source(derivative_of(chain), dtype);
    const std::string image = nvrtc::compile(source, "sm_90");
    EXPECT_THAT(image, StartsWith("\x7f"
                                  "ELF"))
        << dtype;
    EXPECT_THAT(image, HasSubstr(".text.pointwise")) << dtype;
  }
}

// Separate elementwise ops round a product before they add to it, and so must a chain: no FMA.
TEST_F(Nvrtc, RoundsAProductBeforeASum) {
  const std::string source = nvrtc::pointwise_source(scaled().program(), DType::f32);
  const std::string ptx = nvrtc::compile(source, "compute_90");
  EXPECT_THAT(ptx, HasSubstr("mul.rn.f32"));
  EXPECT_THAT(ptx, HasSubstr("add.rn.f32"));
  EXPECT_THAT(ptx, Not(HasSubstr("fma")));
}

TEST_F(Nvrtc, ChoosesMachineCodeForTheDevicesItKnowsAndPtxForLaterOnes) {
  EXPECT_EQ(nvrtc::target_for(90), "sm_90");
  EXPECT_THAT(nvrtc::target_for(999), StartsWith("compute_"));
  EXPECT_EQ(nvrtc::target_for(10), "");
}

TEST_F(Nvrtc, SaysWhatTheCompilerSays) {
  const Refusal refusal =
      refused([] { nvrtc::compile("__global__ void broken() { no_such_function(); }", "sm_90"); });
  EXPECT_EQ(refusal.exit, Exit::internal);
  EXPECT_THAT(refusal.message, HasSubstr("no_such_function"));
}

TEST_F(Nvrtc, CompilesOnceAndFindsItInTheCacheFromThenOn) {
  const std::string source = nvrtc::pointwise_source(scaled().program(), DType::f32);
  DiskCache cache(folder);
  const Moved compiles("pointwise.compiles"), hits("pointwise.cache_hits");
  const std::string image = nvrtc::pointwise_image(source, "compute_90", cache);
  EXPECT_EQ(compiles, 1);
  EXPECT_EQ(hits, 0);
  DiskCache later(folder);
  EXPECT_EQ(nvrtc::pointwise_image(source, "compute_90", later), image);
  EXPECT_EQ(compiles, 1);
  EXPECT_EQ(hits, 1);
  const std::string in_f64 = nvrtc::pointwise_source(scaled().program(), DType::f64);
  nvrtc::pointwise_image(in_f64, "compute_90", cache);
  nvrtc::pointwise_image(source, "compute_80", cache);
  EXPECT_EQ(compiles, 3);
  EXPECT_EQ(hits, 1);
}

// The key depends on the compiler, its options and every formula.
TEST_F(Nvrtc, KeysItsCacheByAllThatItCompiles) {
  const std::string key = nvrtc::fingerprint();
  EXPECT_THAT(key, StartsWith("nvrtc 1"));
  EXPECT_THAT(key, HasSubstr("--fmad=false\n"));
  for (const char* header :
       {"core/base/half.h", "ops/base/functors.h", "ops/chain/pointwise_device.cuh"}) {
    std::ostringstream text;
    text << std::ifstream(fs::path(source_dir()) / header).rdbuf();
    EXPECT_FALSE(text.str().empty()) << header;
    EXPECT_THAT(key, HasSubstr(cat(header, "\n", text.str()))) << header;
  }
}
