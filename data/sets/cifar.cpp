// cifar10, cifar100: CIFAR in its binary format. A file is a sequence of records: a label byte (for
// CIFAR-100 two, coarse and fine), then planes of 32x32 bytes for red, green and blue.
#include <sstream>
#include "core/base/file.h"
#include "core/config/visitor.h"
#include "data/images/file.h"
#include "data/sets/dataset.h"

namespace bellows {

namespace {

struct Cifar10Options {
  std::string root = "datasets/cifar10";
};
void visit(Visitor& v, Cifar10Options& o) {
  v("root", o.root, "folder of the .bin files, or the one that the archive was unpacked in")
      .resumable()
      .also({"data_dir", "data_path", "data_root", "dataset_root"});
}

enum class CifarLabels { coarse, fine };  // the index of their byte
struct Cifar100Options : Cifar10Options {
  Cifar100Options() : Cifar10Options{"datasets/cifar100"} {}
  CifarLabels labels = CifarLabels::fine;
};
void visit(Visitor& v, Cifar100Options& o) {
  visit(v, static_cast<Cifar10Options&>(o));
  v("labels", o.labels, {"coarse", "fine"}, "20 classes, or 100");
}

// The files of a split, and the layout of their records.
struct CifarFiles {
  std::string root, folder;  // folder: of the archive
  std::vector<std::string> records;
  std::string names;             // file with one class name per line; may be missing
  size_t label_bytes, label_at;  // number of label bytes, and index of the one used
  DatasetInfo info;
  std::string path(const std::string& name) const {  // "" if it is missing
    return first_file(root, {name, cat(folder, "/", name)});
  }
};

}  // namespace

// Appends the records of a file.
static void read_records(const CifarFiles& from, const std::string& name,
                         std::vector<uint8_t>& pixels, std::vector<uint8_t>& labels) {
  const std::string path = from.path(name);
  if (path.empty())
    fail(Exit::data, "data.root ", from.root, ": no file ", name, " there or in ", from.folder,
         "; `tools/fetch_data.sh cifar10` fetches CIFAR-10 to datasets/cifar10");
  const std::vector<uint8_t> file = read_bytes(path);
  const size_t size = file.size(), bytes = from.label_bytes + from.info.input.shape.numel();
  if (size == 0 || size % bytes)
    fail(Exit::data, path, ": ", size, " bytes are not whole records of ", bytes, "; after ",
         size / bytes, " of them ", size % bytes, " are left");
  for (auto record = file.begin(); record != file.end(); record += bytes) {
    labels.push_back(record[from.label_at]);
    pixels.insert(pixels.end(), record + from.label_bytes, record + bytes);
  }
  check_labels(std::span(labels).last(size / bytes), from.info.classes, path);
}

static DatasetPtr read_cifar(const CifarFiles& from) {
  constexpr int64_t kMostNameBytes = 1 << 16;
  std::vector<uint8_t> pixels, labels;
  pixels.reserve(from.records.size() * 10000 * from.info.input.shape.numel());
  for (const std::string& name : from.records) read_records(from, name, pixels, labels);
  DatasetInfo info = from.info;
  if (const std::string path = from.path(from.names); !path.empty()) {
    info.names.clear();
    std::istringstream text(read_file(path, kMostNameBytes, Exit::data));
    for (std::string name; text >> name;) info.names.push_back(printable(name));
    if (std::ssize(info.names) != info.classes)
      fail(Exit::data, path, ": ", info.names.size(), " names of classes, not ", info.classes);
  }
  return std::make_shared<MemoryDataset>(info, std::move(pixels), std::move(labels), from.root);
}

static DatasetPtr make_cifar10(const Cifar10Options& o, const DatasetContext& c) {
  std::vector<std::string> records;
  for (int i = 1; i <= 5; ++i) records.push_back(cat("data_batch_", i, ".bin"));
  if (c.split == Split::test) records = {"test_batch.bin"};
  return read_cifar({o.root, "cifar-10-batches-bin", records, "batches.meta.txt", 1, 0,
                     DatasetInfo{.input = {DType::u8, {3, 32, 32}},
                                 .classes = 10,
                                 .names = {"airplane", "automobile", "bird", "cat", "deer", "dog",
                                           "frog", "horse", "ship", "truck"},
                                 .mean = {0.4914f, 0.4822f, 0.4465f},
                                 .std = {0.2470f, 0.2435f, 0.2616f}}});
}

static DatasetPtr make_cifar100(const Cifar100Options& o, const DatasetContext& c) {
  const bool fine = o.labels == CifarLabels::fine;
  const char* const records = c.split == Split::train ? "train.bin" : "test.bin";
  const char* const names = fine ? "fine_label_names.txt" : "coarse_label_names.txt";
  return read_cifar({o.root,
                     "cifar-100-binary",
                     {records},
                     names,
                     2,
                     size_t(fine),
                     DatasetInfo{.input = {DType::u8, {3, 32, 32}},
                                 .classes = fine ? 100 : 20,
                                 .mean = {0.5071f, 0.4865f, 0.4409f},
                                 .std = {0.2673f, 0.2564f, 0.2762f}}});
}

static const AddDataset cifar10_entry("cifar10", "photos of ten kinds of things, 3x32x32",
                                      &make_cifar10, {"cifar", "CIFAR"});
static const AddDataset cifar100_entry("cifar100", "photos of a hundred kinds of things, 3x32x32",
                                       &make_cifar100);

}  // namespace bellows
