// shapes_jpeg: the images of `shapes`, enlarged to different sizes, as JPEG files in memory.
// Exercises the same pipeline as a folder of JPEG files, without any files.
#include "data/images/image_file.h"
#include "data/images/write_image.h"
#include "data/sets/shapes.h"

namespace bellows {

namespace {

using Sizes = DrawnSizes<2000, 500>;
struct ShapesJpegOptions : Sizes {
  int64_t min_side = 64, max_side = 160;
};
void visit(Visitor& v, ShapesJpegOptions& o) {
  visit(v, static_cast<Sizes&>(o));
  v("min_side", o.min_side, "smallest side of an image, in pixels", {.min = 1, .max = 4096});
  v("max_side", o.max_side, "largest side of an image, in pixels", {.min = 1, .max = 4096});
}

class ShapesJpeg : public Dataset {
 public:
  explicit ShapesJpeg(std::vector<EncodedSample> files) : files_(std::move(files)) {}
  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  const DatasetInfo& info() const override { return info_; }
  Sample at_least(int64_t index, const ViewOf& wanted, Scratch& scratch) const override {
    return decode_image(files_[index], scratch, wanted);
  }
  std::optional<EncodedSample> encoded(int64_t index) const override { return files_[index]; }
  std::string origin(int64_t) const override { return "shapes_jpeg"; }

 private:
  const DatasetInfo info_ = shapes_info(0);
  std::vector<EncodedSample> files_;
};

// Enlarges the image and encodes it.
std::vector<uint8_t> encode(const uint8_t* pixels, int64_t height, int64_t width) {
  const Shape shape{3, kShapeSide, kShapeSide};
  ImagePlan image(shape);
  image.resize(height, width);
  return encode_jpeg(interleaved_bytes(image, {pixels, shape}).data(), height, width, 90);
}

EncodedSample draw_file(Draw& draw, const ShapesJpegOptions& o) {
  uint8_t pixels[3 * kShapeSide * kShapeSide];
  const int64_t label = draw_shape(draw, pixels);
  const auto side = [&] { return o.min_side + draw.below(o.max_side - o.min_side + 1); };
  const int64_t height = side(), width = side();
  return {encode(pixels, height, width), label};
}

}  // namespace

static DatasetPtr make_shapes_jpeg(const ShapesJpegOptions& o, const DatasetContext& c) {
  CHECK(o.min_side <= o.max_side, "shapes_jpeg: sides from ", o.min_side, " to ", o.max_side);
  std::vector<EncodedSample> files(o.of(c.split));
  parallel_for(static_cast<int64_t>(files.size()), 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Draw draw(c.split, i);
      files[i] = draw_file(draw, o);
    }
  });
  return std::make_shared<ShapesJpeg>(std::move(files));
}

static const AddEntry<MakeDataset> shapes_jpeg_entry("shapes_jpeg",
                                                     "the shapes as JPEG files of any size",
                                                     &make_shapes_jpeg);

}  // namespace bellows
