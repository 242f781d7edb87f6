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
  v("root", o.root, "folder of the IDX files, or the one that torchvision made")
      .resumable()
      .also({"data_dir", "data_path", "data_root", "dataset_root"});
}

enum class EmnistSplit { byclass, bymerge, balanced, letters, digits, mnist };
const Names kEmnistSplits = {"byclass", "bymerge", "balanced", "letters", "digits", "mnist"};
constexpr int64_t kEmnistClasses[] = {62, 47, 47, 26, 10, 10};
struct EmnistOptions : MnistOptions {
  EmnistOptions() : MnistOptions{"datasets/emnist"} {}
  EmnistSplit split = EmnistSplit::balanced;
};
void visit(Visitor& v, EmnistOptions& o) {
  visit(v, static_cast<MnistOptions&>(o));
  v("split", o.split, kEmnistSplits, "part of EMNIST: they differ in classes and size");
}

// The two files of a split, and how to read them.
struct IdxFiles {
  std::string root, begin;           // begin: of the file names
  std::vector<std::string> folders;  // folders below root to look in, in this order
  bool by_columns = false;           // images are stored by columns
  int64_t first_label = 0;
};

}  // namespace

// Returns the path of the images or labels. Names may have a dot for a dash, and a file may be in a
// folder of its name. Throws Error(Exit::data) if the file is missing.
static std::string find_idx(const IdxFiles& files, const std::string& kind) {
  const std::string stem = cat(files.begin, "-", kind);
  std::string dotted = stem, found;
  dotted[stem.rfind("-idx")] = '.';
  for (const std::string& folder : files.folders) {
    std::vector<std::string> places;
    for (const std::string& name : {stem, dotted, stem + "/" + stem})
      for (const char* ending : {"", ".gz"}) places.push_back(folder + name + ending);
    const std::string file = first_file(files.root, places);
    if (!file.empty() && !found.empty())
      fail(Exit::data, "data.root ", files.root, ": both ", found, " and ", file,
           " are there; name the folder of one of them");
    if (!file.empty()) found = file;
    if (!found.empty() && folder == files.folders[1]) break;  // the requested data set
  }
  if (!found.empty()) return found;
  fail(Exit::data, "data.root ", files.root, ": no file ", stem, " or ", stem, ".gz there or in ",
       files.folders[1], "; `tools/fetch_data.sh mnist` fetches MNIST to datasets/mnist");
}

static DatasetPtr read_idx(const IdxFiles& files, int64_t classes) {
  const std::string images_path = find_idx(files, "images-idx3-ubyte");
  const std::string labels_path = find_idx(files, "labels-idx1-ubyte");
  auto [label_count, labels] = read_idx_file(labels_path, 1);
  auto [shape, pixels] = read_idx_file(images_path, 3);
  if (shape[0] != label_count[0])
    fail(Exit::data, images_path, " has ", shape[0], " images, ", labels_path, " ", label_count[0],
         " labels");
  for (uint8_t& label : labels) label = static_cast<uint8_t>(label - files.first_label);
  if (files.by_columns) {
    const std::vector<uint8_t> columns = pixels;
    std::swap(shape[1], shape[2]);
    const int64_t height = shape[1], width = shape[2], size = height * width;
    for (int64_t i = 0; i < std::ssize(pixels); ++i)
      pixels[i] = columns[i - i % size + i % width * height + i % size / width];
  }
  check_labels(labels, classes, labels_path);
  const DatasetInfo info{.input = {DType::u8, {1, shape[1], shape[2]}},
                         .classes = classes,
                         .mean = {0.1307f},
                         .std = {0.3081f}};
  return std::make_shared<MemoryDataset>(info, std::move(pixels), std::move(labels), images_path);
}

static DatasetPtr make_mnist(const MnistOptions& o, const DatasetContext& c) {
  return read_idx({o.root,
                   c.split == Split::train ? "train" : "t10k",
                   {"", "MNIST/raw/", "FashionMNIST/raw/", "KMNIST/raw/"}},
                  10);
}

static DatasetPtr make_emnist(const EmnistOptions& o, const DatasetContext& c) {
  const auto split = static_cast<size_t>(o.split);
  return read_idx(
      {.root = o.root,
       .begin = cat("emnist-", kEmnistSplits[split], c.split == Split::train ? "-train" : "-test"),
       .folders = {"", "EMNIST/raw/", "gzip/"},
       .by_columns = true,
       .first_label = o.split == EmnistSplit::letters},
      kEmnistClasses[split]);
}

static const AddDataset mnist_entry("mnist", "handwritten digits, 28x28, in IDX files", &make_mnist,
                                    {"idx", "fashion_mnist", "FashionMNIST"});
static const AddDataset emnist_entry("emnist", "handwritten letters and digits, 28x28",
                                     &make_emnist);

}  // namespace bellows
