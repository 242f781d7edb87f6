// mnist: MNIST and data sets of the same format (Fashion-MNIST, KMNIST): four IDX files, gzipped or
// not.
#include "core/config/visitor.h"
#include "data/images/file.h"
#include "data/sets/dataset.h"
#include "data/sets/idx.h"

namespace bellows {

namespace {
struct MnistOptions {
  std::string root = "datasets/mnist";
};
void visit(Visitor& v, MnistOptions& o) {
  v("root", o.root, "folder of the IDX files, or the one that torchvision made");
}
}  // namespace

// Returns the path of a file; "" if it is missing.
static std::string mnist_path(const std::string& root, const std::string& stem) {
  return first_file(root, {stem, stem + ".gz", "MNIST/raw/" + stem, "MNIST/raw/" + stem + ".gz"});
}

static std::string find_mnist(const std::string& root, const std::string& stem) {
  std::string path = mnist_path(root, stem);
  if (!path.empty()) return path;
  fail(Exit::data, "data.root ", root, ": no file ", stem, " or ", stem,
       ".gz there or in MNIST/raw; `tools/fetch_data.sh mnist` fetches it to datasets/mnist");
}

static DatasetPtr make_mnist(const MnistOptions& o, const DatasetContext& c) {
  const std::string stem = c.split == Split::train ? "train" : "t10k";
  const std::string images_path = find_mnist(o.root, stem + "-images-idx3-ubyte");
  const std::string labels_path = find_mnist(o.root, stem + "-labels-idx1-ubyte");
  IdxFile images(images_path, 3), labels(labels_path, 1);
  const Shape& shape = images.shape();
  if (shape[0] != labels.shape()[0])
    fail(Exit::data, images_path, " has ", shape[0], " images, ", labels_path, " ",
         labels.shape()[0], " labels");
  const DatasetInfo info{
      .sample = {1, shape[1], shape[2]}, .classes = 10, .mean = {0.1307f}, .std = {0.3081f}};
  return std::make_shared<MemoryDataset>(info, images.read(), labels.read(), images_path,
                                         labels_path);
}

static Sources mnist_sources(const MnistOptions& o) {
  Sources files;
  for (const char* stem : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                           "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"})
    files.push_back(mnist_path(o.root, stem));
  return files;
}

static const AddSources mnist_files("mnist", &mnist_sources);
static const AddEntry<MakeDataset> mnist_entry("mnist", "handwritten digits, 28x28, in IDX files",
                                               &make_mnist);

}  // namespace bellows
