// trainer predict RUN IMAGE: class probabilities of one picture.
#include <fmt/format.h>
#include <algorithm>
#include <numeric>
#include "autograd/record.h"
#include "core/copy.h"
#include "data/transform.h"
#include "ops/softmax.h"
#include "trainer/image.h"
#include "trainer/output.h"
#include "trainer/trained.h"
#include "trainer/verbs.h"

namespace bellows {

// As one batch, through the transforms that the model was trained with.
static Tensor input_of(const Session& session, const std::string& path, bool invert) {
  const DatasetInfo& info = session.train_set->info();
  const Image image = read_image(path);
  Shape shape = info.sample;
  if (shape[1] == 0) shape = {shape[0], image.height, image.width};  // transforms make it fit
  std::vector<uint8_t> pixels = fitted(image, shape[0], shape[1], shape[2]);
  if (invert)
    for (uint8_t& pixel : pixels) pixel = 255 - pixel;
  const Transforms transforms(session.plan.data.transforms, info, Use::evaluation);
  Shape batch{1};
  for (const int64_t dim : session.input) batch.push_back(dim);
  const Tensor x(batch, DType::f32);
  transforms.write({pixels.data(), shape, 0}, session.plan.seed, 0, 0, x.ptr<float>());
  return to(session.device, x);
}

static int run(const Arguments& args) {
  CommandLine line("predict");
  std::string from, image;
  bool invert = false;
  size_t top = 10;
  line.add_option("run,--checkpoint", from, "run folder or checkpoint file")->required();
  line.add_option("image,--image", image, "PNG, JPEG, PGM or PPM file")->required();
  line.add_flag("--invert", invert, "dark on light, where the model learned light on dark (MNIST)");
  line.add_option("--top", top, "classes to show, the likeliest first")->check(CLI::PositiveNumber);
  if (!line.read(args)) return 0;
  const auto session = load_trained(from, {});
  const Kernels use(session->plan.kernels);
  const NoGrad untracked;
  session->model->train(false);
  const Tensor shares = softmax((*session->model)(input_of(*session, image, invert)), 1);
  const Tensor host = contiguous(to(Device::cpu, shares));
  const auto p = host.data<float>();
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t i) { return p[i]; });
  const std::vector<std::string>& names = session->train_set->info().names;
  for (size_t i = 0; i < std::min(top, order.size()); ++i)
    say(fmt::format("class {}{}: {:.4f}", order[i], names.empty() ? "" : " " + names[order[i]],
                    p[order[i]]));
  return 0;
}

static const AddVerb verb({"predict", "class probabilities of a picture",
                           "trainer predict runs/lenet digit.png", run});

}  // namespace bellows
