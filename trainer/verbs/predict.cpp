// trainer predict RUN INPUT...: class probabilities of images, rows and arrays; values; texts that
// go on.
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
#include "data/sets/arrays.h"
#include "ops/softmax.h"
#include "trainer/session/session.h"
#include "trainer/state/training_state.h"
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

static Tensor read_input(const Session& session, const std::string& path, bool invert) {
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
  } catch (const Error& error) {  // such as an image too small for a crop
    fail(Exit::data, printable(path), ": ", error.what());
  }
  return x;
}

static std::vector<float> on_host(const Tensor& values) {
  const Tensor host = contiguous(cast(to(Device::cpu, values), DType::f32));
  return {host.data<float>().begin(), host.data<float>().end()};
}

// Returns the classes from the highest value to the lowest; NaN counts as the lowest.
static std::vector<size_t> rank_classes(const std::vector<float>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](size_t i) { return std::isnan(values[i]) ? -INFINITY : values[i]; });
  return order;
}

// Continues a text, (1, T) tokens, with the most probable token until the end of the line or the
// longest text that the model has learned.
static std::string continue_text(const Session& session, Tensor x) {
  const DatasetInfo& info = session.train_set->info();
  std::string text;
  while (x.dim(1) < info.input.shape[0]) {
    const std::vector<float> scores = on_host((*session.model)(to(session.device, x)));
    const auto last = scores.end() - info.classes;
    const int64_t next = std::ranges::max_element(last, scores.end()) - last;
    const std::string character =
        info.names.empty() ? std::string(1, char(next)) : info.names[next];
    if (character == "\n") break;
    text += character;
    std::vector<int64_t> tokens(x.data<int64_t>().begin(), x.data<int64_t>().end());
    tokens.push_back(next);
    x = tensor_of(tokens, {1, std::ssize(tokens)});
  }
  return text;
}

// Returns the best class and the probabilities or logits of all classes, the values of a
// regression, or the continuation of a text. Runs one sample at a time: answers are independent.
static Json predict(const Session& session, const Tensor& x, const PredictLine& line) {
  const DatasetInfo& info = session.train_set->info();
  if (x.dtype() == DType::i64 && info.target.shape.rank() == 1)
    return {{"text", printable(continue_text(session, x))}};
  const Tensor output = (*session.model)(to(session.device, x));
  if (info.classes == 0) return {{"values", on_host(output)}};
  const std::vector<float> values = on_host(line.logits ? output : softmax(output));
  const size_t best = rank_classes(values)[0];
  Json json = {{"class", best}};
  if (!info.names.empty()) json["name"] = info.names[best];
  json[line.logits ? "logits" : "probabilities"] = values;
  return json;
}

// Returns a prediction as lines: "class 3 cat: 0.9812" for each of the `top` best classes.
static Names describe(const Json& made, const Session& session, const PredictLine& line) {
  if (made.contains("text")) return {made.at("text").get<std::string>()};
  if (made.contains("values")) return {to_line(made.at("values"))};
  const Names& names = session.train_set->info().names;
  const auto values = made.at(line.logits ? "logits" : "probabilities").get<std::vector<float>>();
  Names best;
  for (const size_t i : rank_classes(values)) {
    if (std::ssize(best) == line.top) break;
    best.push_back(fmt::format("class {}{}: {:.4f}", i, names.empty() ? "" : " " + names[i],
                               unsigned_nan(values[i])));
  }
  return best;
}

static void declare(CommandLine& line, PredictLine& given) {
  line.add_option("run,--checkpoint", given.from, "run folder or checkpoint file").required();
  line.add_option("inputs,--image", given.images,
                  "image files, folders of them, CSV or .npy files, or texts; - for stdin");
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

static bool predict_one(const Session& session, const std::string& path, const PredictLine& line) {
  Json json = {{"image", path}};
  try {
    json.update(predict(session, read_input(session, path, line.invert), line));
  } catch (const Error& error) {
    if (error.exit != Exit::data) throw;
    json["error"] = error.what();
  }
  const bool read = !json.contains("error");
  if (line.json)
    say(to_line(json));
  else if (read)
    say(printable(path) + ": " + joined(describe(json, session, line)));
  else
    complain(json["error"].get<std::string>());
  return read;
}

static void predict_all(const Session& session, const std::vector<std::string>& paths,
                        const PredictLine& line) {
  size_t all = 0, unread = 0;
  const auto answer = [&](const std::string& path) {
    ++all;
    if (!predict_one(session, path, line)) ++unread;
  };
  std::ranges::for_each(paths, answer);
  if (!line.list.empty())
    each_line(line.list, [&](const std::string& given) {
      std::ranges::for_each(image_paths({given}), answer);
    });
  CHECK(all, "no image is named; write  trainer predict ", quoted(line.from), " IMAGE");
  if (unread) fail(Exit::data, unread, " of ", all, " images could not be used");
}

// Arguments are texts, or files of other inputs. "-" is standard input: one text per line, each
// answered before the next line is read.
static void predict_inputs(const Session& session, const PredictLine& line) {
  const DatasetInfo& info = session.train_set->info();
  const std::string& set = session.plan.data.dataset.name();
  const bool texts = entries<EncodeText>().contains(set);
  bool any = false;
  const auto answer = [&](const GivenInputs& given) {
    any = true;
    for (const Tensor& x : texts ? std::vector{Choice<EncodeText>(set).make(given)}
                                 : Choice<MakeInputs>(set).make(given)) {
      const Json made = predict(session, x, line);
      say(line.json ? to_line(made) : joined(describe(made, session, line)));
    }
  };
  for (const std::string& given : line.images)
    if (texts && given == "-")
      each_line("-", [&](const std::string& text) { answer({info, text, text}); });
    else
      answer({info, given, texts ? given : read_path(given)});
  CHECK(any, "predict: no input is named; write  trainer predict ", quoted(line.from),
        texts ? " TEXT" : " FILE");
}

static int run_predict(CommandLine& line, const Arguments& args) {
  PredictLine given;
  declare(line, given);
  if (!line.read(args)) return 0;
  const auto session = load_trained(given.from, false);
  session->model->train(false);
  const Kernels use(session->plan.kernels);
  const NoGrad untracked;
  if (!session->train_set->info().images()) return predict_inputs(*session, given), 0;
  const auto from_stdin = std::ranges::count(given.images, "-");
  CHECK(given.list != "-" || from_stdin == 0,
        "predict: standard input cannot be both an image and the list; name - once");
  CHECK(from_stdin <= 1, "predict: standard input holds one image; name - once");
  const std::vector<std::string> paths = image_paths(given.images);
  const bool only_one = paths == given.images && paths.size() == 1 && given.list.empty();
  if (!only_one || given.json) return predict_all(*session, paths, given), 0;
  const Json made = predict(*session, read_input(*session, paths[0], given.invert), given);
  for (const std::string& text : describe(made, *session, given)) say(text);
  return 0;
}

static const AddVerb predict_verb(
    {"predict", "prints what a trained model says of images, texts, rows or arrays",
     "trainer predict runs/lenet digit.png", run_predict, "use"});

}  // namespace bellows
