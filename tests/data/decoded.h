// Decodes image files from memory, for tests of formats.
#pragma once
#include "data/images/image_file.h"
#include "tests/data/files.h"
#include "tests/data/image_files.h"

namespace bellows {

inline std::span<const uint8_t> image_bytes(const std::string& file) {
  return {reinterpret_cast<const uint8_t*>(file.data()), file.size()};
}

// Returns the image as RGB.
inline Pixels decoded(const std::string& file) {
  Scratch scratch;
  const Sample s = decode_image(image_bytes(file), scratch);
  EXPECT_EQ(image_shape(image_bytes(file)), s.shape);
  EXPECT_EQ(s.shape[0], 3);
  EXPECT_EQ(s.part->height, s.shape[1]);
  EXPECT_EQ(s.part->width, s.shape[2]);
  EXPECT_TRUE(s.part->interleaved);
  return {int(s.shape[1]), int(s.shape[2]), 3, {s.pixels, s.pixels + s.shape.numel()}};
}

// Returns the message of the error that a damaged file gives.
inline std::string image_refusal(const std::string& file) {
  return complaint(Exit::data, [&] { decoded(file); });
}

// Decodes a file that may be damaged, or the part of it that is `wanted`. Returns false if it is
// refused. Otherwise the pixels have the size of the part, even if their values are wrong.
inline bool is_decoded(const std::string& file, const ViewOf& wanted = {}) {
  Scratch scratch;
  try {
    const Sample s = decode_image(image_bytes(file), scratch, wanted);
    EXPECT_EQ(scratch.size(), size_t(3 * s.part->height * s.part->width));
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.exit, Exit::data) << error.what();
    return false;
  }
}

}  // namespace bellows
