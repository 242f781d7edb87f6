// Runs a trained model on the images of its test set, for the page of its run.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include "core/tensor/copy.h"
#include "data/images/image_file.h"
#include "data/images/transform.h"
#include "labs/page/page.h"
#include "ops/softmax.h"
#include "trainer/session/session.h"
#include "trainer/state/training_state.h"

namespace bellows {

constexpr int64_t kMostSamples = 2000;  // evenly spaced in a larger test set
constexpr size_t kShown = 8;            // images of the largest loss, and of the last batch
constexpr int64_t kSide = 64;           // pixels of the longer side of a thumbnail

namespace {
struct Judged {
  int64_t index, label, guess;
  double loss;
};
}  // namespace

static std::string base64(std::vector<uint8_t> bytes) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const size_t padding = (3 - bytes.size() % 3) % 3;
  bytes.resize(bytes.size() + padding);
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3)
    for (int digit = 3; digit >= 0; --digit)
      text += kDigits[(bytes[i] << 16 | bytes[i + 1] << 8 | bytes[i + 2]) >> 6 * digit & 63];
  return text.replace(text.size() - padding, padding, padding, '=');
}

static std::string thumbnail(const Sample& sample) {
  ImagePlan plan(sample.shape);
  const int64_t longer = std::max({plan.height(), plan.width(), kSide}), C = plan.channels();
  plan.resize(std::max<int64_t>(1, plan.height() * kSide / longer),
              std::max<int64_t>(1, plan.width() * kSide / longer));
  const std::vector<uint8_t> pixels = interleaved_bytes(plan, sample);  // (H, W, C)
  std::vector<uint8_t> rgb;
  for (int64_t at = 0; at < plan.height() * plan.width(); ++at)
    for (int64_t c = 0; c < 3; ++c) rgb.push_back(pixels[at * C + (C < 3 ? 0 : c)]);
  return base64(encode_jpeg(rgb.data(), plan.height(), plan.width(), 85));
}

static std::vector<Judged> judge(const Session& session, const Transforms& transforms,
                                 int64_t begin, int64_t end, int64_t count) {
  const Dataset& set = *session.test_set;
  const Tensor x(with_rows(end - begin, session.input), DType::f32);
  std::vector<Judged> judged;
  Scratch scratch;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t index = i * set.size() / count;
    const Sample sample = set.at(index, scratch);
    transforms.write(sample, 0, 0, index, x.ptr<float>() + (i - begin) * session.input.numel());
    judged.push_back({index, sample.label, 0, 0});
  }
  const Tensor output = (*session.model)(to(session.device, x));
  const Tensor shares = softmax(contiguous(cast(to(Device::cpu, output), DType::f32)));
  for (size_t i = 0; i < judged.size(); ++i) {
    const auto row = shares.data<float>().subspan(i * set.info().classes, set.info().classes);
    judged[i].guess = std::ranges::max_element(row) - row.begin();
    judged[i].loss = -std::log(std::max(row[judged[i].label], 1e-30F));
  }
  return judged;
}

static Json shown(const Session& session, const std::vector<Judged>& judged) {
  Json list = Json::array();
  Scratch scratch;
  for (const Judged& j : std::span(judged).first(std::min(kShown, judged.size())))
    list.push_back({{"label", j.label},
                    {"guess", j.guess},
                    {"loss", j.loss},
                    {"jpeg", thumbnail(session.test_set->at(j.index, scratch))}});
  return list;
}

Json judge_test_images(const Path& run) {
  const auto session = load_trained(run.string(), true);
  const DatasetInfo& info = session->test_set->info();
  if (!info.images() || info.classes == 0) return {};
  session->model->train(false);
  const Kernels use(session->kernels());
  const Autocast precision(session->plan.amp.low());
  const NoGrad untracked;
  const EmaScope averaged(*session->ema);
  const Transforms transforms(session->plan.data.transforms, info, TransformMode::evaluation);
  const int64_t all = session->test_set->size(), count = std::min(all, kMostSamples);
  const int64_t batch = session->plan.data.loader.sampler.batch_size;
  std::vector<Judged> judged, last;
  std::map<std::pair<int64_t, int64_t>, int64_t> pairs;  // counts by label and answer
  for (int64_t at = 0; at < count; at += batch) {
    last = judge(*session, transforms, at, std::min(at + batch, count), count);
    judged.insert(judged.end(), last.begin(), last.end());
  }
  for (const Judged& j : judged) ++pairs[{j.label, j.guess}];
  Json counts = Json::array();
  for (const auto& [pair, n] : pairs) counts.push_back({pair.first, pair.second, n});
  std::ranges::stable_sort(judged, std::greater<>(), &Judged::loss);
  return {{"samples", count},
          {"of", all},
          {"classes", class_names(info)},
          {"pairs", counts},
          {"worst", shown(*session, judged)},
          {"last", shown(*session, last)}};
}

}  // namespace bellows
