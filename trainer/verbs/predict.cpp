// trainer predict RUN IMAGE...: class probabilities of images.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include "autograd/record.h"
#include "core/base/json.h"
#include "core/base/output.h"
#include "core/base/statistics.h"
#include "core/base/utf8.h"
#include "core/base/words.h"
#include "core/tensor/copy.h"
#include "data/images/transform.h"
#include "ops/softmax.h"
#include "trainer/session/session.h"
#include "trainer/state/trained.h"
#include "trainer/verbs/image.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

namespace {
struct PredictLine {
  std::string from, list;
  std::vector<std::string> images;
  bool invert = false, json = false, logits = false;
  int64_t top = 10;
};
}  // namespace

// Reads an image and applies the evaluation transforms of the training run.
static Tensor input_of(const Session& session, const std::string& path, bool invert) {
  const DatasetInfo& info = session.train_set->info();
  const Transforms transforms(session.plan.data.transforms, info, TransformMode::evaluation);
  const DecodedImage image = read_image(path);
  Shape shape = info.input.shape;
  if (shape[1] == 0) shape = {shape[0], image.height, image.width};  // the transforms resize it
  std::vector<uint8_t> pixels = fitted(image, shape);
  if (invert)
    for (uint8_t& pixel : pixels) pixel = 255 - pixel;
  const Tensor x(with_rows(1, session.input), DType::f32);
  try {
    transforms.write({pixels.data(), shape, 0}, session.plan.seed, 0, 0, x.ptr<float>());
  } catch (const Error& error) {  // for example an image too small for a crop
    fail(Exit::data, printable(path), ": ", error.what());
  }
  return to(session.device, x);
}

// Returns the probability of each class, or its logit. Runs one image at a time, so that no result
// depends on other images.
static std::vector<float> predict(const Session& session, const std::string& path,
                                  const PredictLine& line) {
  const Kernels use(session.plan.kernels);
  const NoGrad untracked;
  const Tensor logits = (*session.model)(input_of(session, path, line.invert));
  const Tensor values = line.logits ? logits : softmax(logits, 1);
  const Tensor host = contiguous(to(Device::cpu, values));
  return {host.data<float>().begin(), host.data<float>().end()};
}

// Returns the classes from the highest value to the lowest; NaN counts as the lowest.
static std::vector<size_t> ranked(const std::vector<float>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](size_t i) { return std::isnan(values[i]) ? -INFINITY : values[i]; });
  return order;
}

// Returns "class 3 cat: 0.9812" for each of the `top` best classes.
static Names best_of(const std::vector<float>& values, const Names& names, int64_t top) {
  Names best = {};
  for (const size_t i : ranked(values)) {
    if (std::ssize(best) == top) break;
    best.push_back(fmt::format("class {}{}: {:.4f}", i, names.empty() ? "" : " " + names[i],
                               unsigned_nan(values[i])));
  }
  return best;
}

static Json json_of(const std::vector<float>& values, const Names& names, const PredictLine& line) {
  const size_t best = ranked(values)[0];
  Json json = {{"class", best}};
  if (!names.empty()) json["name"] = names[best];
  json[line.logits ? "logits" : "probabilities"] = values;
  return json;
}

static void declare(CommandLine& line, PredictLine& given) {
  line.add_option("run,--checkpoint", given.from, "run folder or checkpoint file").required();
  line.add_option("images,--image", given.images,
                  "PNG, JPEG, PGM or PPM files, folders of them, or - for an image on stdin");
  line.add_option("--list", given.list, "file with one image path per line; - for stdin");
  const auto json = line.add_flag(
      "--json", given.json,
      "print one JSON object per line: image, class, name, and the values of all classes");
  line.add_flag("--logits", given.logits, "print logits instead of probabilities");
  line.add_flag("--invert", given.invert,
                "invert the pixels, for dark on light if the model learned light on dark (MNIST)");
  line.add_option("--top", given.top,
                  "number of classes to print, most probable first (not with --json)")
      .positive()
      .excludes(json);
}

static std::vector<std::string> paths_of(const PredictLine& line) {
  std::vector<std::string> given = line.images;
  CHECK(line.list.empty() || std::ranges::count(given, "-") == 0 || line.list != "-",
        "predict: standard input cannot be both an image and the list; name - once");
  CHECK(std::ranges::count(given, "-") <= 1,
        "predict: standard input holds one image; name - once");
  if (!line.list.empty())
    for (const std::string& path : read_lines(line.list)) given.push_back(path);
  CHECK(!given.empty(), "no image is named; write  trainer predict ", quoted(line.from), " IMAGE");
  return image_paths(given);
}

// Reports images that cannot be read and continues with the others.
static void predict_all(const Session& session, const std::vector<std::string>& paths,
                        const Names& names, const PredictLine& line) {
  size_t unread = 0;
  for (const std::string& path : paths) {
    Json json = {{"image", path}};
    try {
      const std::vector<float> values = predict(session, path, line);
      json.update(json_of(values, names, line));
      if (!line.json) say(printable(path) + ": " + joined(best_of(values, names, line.top)));
    } catch (const Error& error) {
      if (error.exit != Exit::data) throw;
      ++unread;
      json["error"] = error.what();
      if (!line.json) complain(error.what());
    }
    if (line.json) say(to_line(json));
  }
  if (unread) fail(Exit::data, unread, " of ", paths.size(), " images could not be used");
}

static int run_predict(CommandLine& line, const Arguments& args) {
  PredictLine given;
  declare(line, given);
  if (!line.read(args)) return 0;
  const std::vector<std::string> paths = paths_of(given);
  const auto session = load_to_predict(given.from);
  session->model->train(false);
  const Names& names = session->train_set->info().names;
  const bool only_one = paths == given.images && paths.size() == 1;
  if (!only_one || given.json)
    predict_all(*session, paths, names, given);
  else
    for (const std::string& text : best_of(predict(*session, paths[0], given), names, given.top))
      say(text);
  return 0;
}

static const AddVerb predict_verb({"predict", "prints the class probabilities of images",
                                   "trainer predict runs/lenet digit.png", run_predict});

}  // namespace bellows
