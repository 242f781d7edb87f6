// A fixed convolution that whitens image patches: uncorrelated, with variance one. The filters are
// +-v / sqrt(lambda + eps) for the eigenpairs (lambda, v) of the second moments of the training
// images' patches. Only the bias is trained.
// K. Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU", 2024; after D. Page, 2018.
#include <Eigen/Eigenvalues>
#include <cmath>
#include "core/base/round.h"
#include "core/config/visitor.h"
#include "core/device/parallel.h"
#include "core/tensor/copy.h"
#include "models/module/module.h"
#include "ops/conv/conv2d.h"

namespace bellows {

namespace {

struct WhiteningOptions {
  int64_t kernel = 2, images = 5000;
  double eps = 5e-4;
};
void visit(Visitor& v, WhiteningOptions& o) {
  v("kernel", o.kernel, "height and width of the patches", {.min = 1, .max = 1024});
  v("images", o.images, "of the training set, whose patches are taken", {.min = 1});
  v("eps", o.eps, "added to the eigenvalues", {.min = 1e-12});
}

using Moments = Eigen::MatrixXd;
constexpr int64_t kSums = 64;  // partial sums computed in parallel; each holds a matrix

// Mean of p p' over all k x k patches p = (C, k, k) of the images.
Moments second_moments(const Tensor& images, int64_t k) {
  const int64_t C = images.dim(1), H = images.dim(2), W = images.dim(3), size = C * k * k;
  const int64_t rows = H - k + 1, columns = W - k + 1;
  const int64_t each = ceil_div(images.dim(0), kSums);  // independent of the thread count
  std::vector<Moments> parts(ceil_div(images.dim(0), each), Moments::Zero(size, size));
  parallel_for(images.dim(0), each, [&](int64_t begin, int64_t end) {
    Eigen::MatrixXf patches(size, rows * columns);
    for (int64_t n = begin; n < end; ++n) {
      const float* const image = images.ptr<float>() + n * C * H * W;
      for (int64_t tap = 0; tap < size; ++tap) {
        const float* const from = image + tap / (k * k) * H * W + tap / k % k * W + tap % k;
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < columns; ++j) patches(tap, i * columns + j) = from[i * W + j];
      }
      parts[begin / each] += (patches * patches.transpose()).cast<double>();
    }
  });
  Moments sum = Moments::Zero(size, size);
  for (const Moments& part : parts) sum += part;
  return sum / double(images.dim(0) * rows * columns);
}

// Filters (2 C k k, C, k, k) in order of ascending eigenvalue: first all +v, then all -v.
Tensor whitening_filters(const Tensor& images, const WhiteningOptions& o) {
  const Eigen::SelfAdjointEigenSolver<Moments> eigen(second_moments(images, o.kernel));
  const int64_t size = eigen.eigenvalues().size();
  const Tensor filters({2 * size, images.dim(1), o.kernel, o.kernel}, DType::f32);
  float* const w = filters.ptr<float>();
  for (int64_t i = 0; i < size; ++i) {
    // Rounding may make an eigenvalue of 0 negative.
    const double deviation = std::sqrt(std::max(eigen.eigenvalues()[i], 0.0) + o.eps);
    for (int64_t tap = 0; tap < size; ++tap) {
      const double value = eigen.eigenvectors()(tap, i) / deviation;
      w[i * size + tap] = float(value);
      w[(size + i) * size + tap] = -float(value);
    }
  }
  return filters;
}

class Whitening : public Module {
 public:
  Whitening(const WhiteningOptions& o, LayerContext& context) {
    Shape& shape = context.shape;
    CHECK(shape.rank() == 3 && std::min(shape[1], shape[2]) >= o.kernel,
          "whitening: needs images (C, H, W) of at least ", o.kernel, "x", o.kernel, ", got ",
          shape);
    const Tensor images = context.images ? context.images(o.images) : Tensor();
    CHECK(
        images.defined() && images.dim(1) == shape[0] && images.dim(2) == shape[1] &&
            images.dim(3) == shape[2],
        "whitening: only a model's first layer can be one, because training images initialize it");
    const Tensor filters = whitening_filters(images, o);
    shape = {filters.dim(0), shape[1] - o.kernel + 1, shape[2] - o.kernel + 1};
    weight_ = add_buffer("weight", to(context.device, filters));
    const double bound = 1 / std::sqrt(double(filters.numel() / filters.dim(0)));
    bias_ = add_parameter("bias", {shape[0]}, {Init::uniform, bound}, context.device);
  }
  const char* kind() const override { return "whitening"; }
  bool begins_with_conv2d() const override { return true; }

 protected:
  Tensor forward(const Tensor& x) override { return conv2d(x, weight_, bias_, {}, &slot_); }

 private:
  Tensor weight_, bias_;
  Slot slot_;
};

}  // namespace

static const AddEntry<MakeLayer> whitening_entry("whitening",
                                                 "fixed filters that decorrelate the images",
                                                 make_layer<Whitening, WhiteningOptions>);

}  // namespace bellows
