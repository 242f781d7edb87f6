// mnist: MNIST and data sets of the same format (Fashion-MNIST, KMNIST), emnist: EMNIST. Each has
// four IDX files, gzipped or not.
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

struct EmnistPart {
  const char* name;
  int64_t classes, first_label = 0;
};
constexpr EmnistPart kEmnistParts[] = {{"byclass", 62},    {"bymerge", 47}, {"balanced", 47},
                                       {"letters", 26, 1}, {"digits", 10},  {"mnist", 10}};
enum class EmnistSplit { byclass, bymerge, balanced, letters, digits, mnist };
struct EmnistOptions {
  std::string root = "datasets/emnist";
  EmnistSplit split = EmnistSplit::balanced;
};
void visit(Visitor& v, EmnistOptions& o) {
  v("root", o.root, "folder of the IDX files, or the one that torchvision made");
  v("split", o.split, {"byclass", "bymerge", "balanced", "letters", "digits", "mnist"},
    "part of EMNIST: they differ in classes and size");
}

// Where the files of a data set are.
struct IdxFiles {
  std::string root, train, test;     // train, test: the beginning of names
  std::vector<std::string> folders;  // below root, the data set's own first

  // Returns the path of a file. Throws Error(Exit::data) if it is missing.
  std::string find(Split split, const std::string& kind) const;
};

// Names may have a dot for a dash. A file may be in a folder of its name.
std::string IdxFiles::find(Split split, const std::string& kind) const {
  const std::string stem = (split == Split::train ? train : test) + "-" + kind;
  std::string dotted = stem, found;
  dotted[stem.rfind("-idx")] = '.';
  for (const std::string& folder : folders) {
    std::vector<std::string> places;
    for (const std::string& name : {stem, dotted, stem + "/" + stem})
      for (const char* ending : {"", ".gz"}) places.push_back(folder + name + ending);
    const std::string file = first_file(root, places);
    if (!file.empty() && !found.empty())
      fail(Exit::data, "data.root ", root, ": both ", found, " and ", file,
           " are there; name the folder of one of them");
    if (!file.empty()) found = file;
    if (!found.empty() && folder == folders[1]) break;  // the data set that was asked for
  }
  if (!found.empty()) return found;
  fail(Exit::data, "data.root ", root, ": no file ", stem, " or ", stem, ".gz there or in ",
       folders[1], "; `tools/fetch_data.sh mnist` fetches MNIST to datasets/mnist");
}

}  // namespace

// Reads a split. EMNIST stores images by columns.
static DatasetPtr read_idx(const IdxFiles& files, Split split, int64_t classes,
                           bool by_columns = false, int64_t first_label = 0) {
  const std::string images_path = files.find(split, "images-idx3-ubyte");
  const std::string labels_path = files.find(split, "labels-idx1-ubyte");
  IdxFile images(images_path, 3), labels(labels_path, 1);
  const Shape& shape = images.shape();
  if (shape[0] != labels.shape()[0])
    fail(Exit::data, images_path, " has ", shape[0], " images, ", labels_path, " ",
         labels.shape()[0], " labels");
  DatasetInfo info{
      .sample = {1, shape[1], shape[2]}, .classes = classes, .mean = {0.1307f}, .std = {0.3081f}};
  std::vector<uint8_t> pixels = images.read(), known = labels.read();
  for (uint8_t& label : known) label = static_cast<uint8_t>(label - first_label);
  if (by_columns) {
    const std::vector<uint8_t> columns = pixels;
    info.sample = {1, shape[2], shape[1]};
    const int64_t width = shape[1], size = shape[1] * shape[2];
    for (int64_t i = 0; i < std::ssize(pixels); ++i)
      pixels[i] = columns[i - i % size + i % width * shape[2] + i % size / width];
  }
  return std::make_shared<MemoryDataset>(info, std::move(pixels), std::move(known), images_path,
                                         labels_path);
}

static IdxFiles mnist_idx(const MnistOptions& o) {
  return {o.root, "train", "t10k", {"", "MNIST/raw/", "FashionMNIST/raw/", "KMNIST/raw/"}};
}
static DatasetPtr make_mnist(const MnistOptions& o, const DatasetContext& c) {
  return read_idx(mnist_idx(o), c.split, 10);
}

static IdxFiles emnist_idx(const EmnistOptions& o) {
  const std::string part = cat("emnist-", kEmnistParts[int(o.split)].name);
  return {o.root, part + "-train", part + "-test", {"", "EMNIST/raw/", "gzip/"}};
}
static DatasetPtr make_emnist(const EmnistOptions& o, const DatasetContext& c) {
  const EmnistPart& part = kEmnistParts[int(o.split)];
  return read_idx(emnist_idx(o), c.split, part.classes, true, part.first_label);
}

static const AddEntry<MakeDataset> mnist_entry("mnist", "handwritten digits, 28x28, in IDX files",
                                               &make_mnist);
static const AddEntry<MakeDataset> emnist_entry("emnist", "handwritten letters and digits, 28x28",
                                                &make_emnist);

}  // namespace bellows
