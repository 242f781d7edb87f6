// cifar10, cifar100: CIFAR in its binary format. A file is a sequence of records: a label byte (for
// CIFAR-100 two, coarse and fine), then planes of 32x32 bytes for red, green and blue.
#include <sstream>
#include "core/base/file.h"
#include "core/config/visitor.h"
#include "data/images/file.h"
#include "data/sets/dataset.h"

namespace bellows {

namespace {

constexpr int64_t kPixels = 3 * 32 * 32;
constexpr int64_t kMostNameBytes = 1 << 16;

struct Cifar10Options {
  std::string root = "datasets/cifar10";
};
void visit(Visitor& v, Cifar10Options& o) {
  v("root", o.root, "folder of the .bin files, or the one that the archive was unpacked in");
}

enum class CifarLabels { coarse, fine };  // the index of their byte
struct Cifar100Options {
  std::string root = "datasets/cifar100";
  CifarLabels labels = CifarLabels::fine;
};
void visit(Visitor& v, Cifar100Options& o) {
  v("root", o.root, "folder of the .bin files, or the one that the archive was unpacked in");
  v("labels", o.labels, {"coarse", "fine"}, "20 classes, or 100");
}

struct CifarFiles {
  std::string root, folder, names;  // folder: of the archive; names: of the classes
  std::vector<std::string> train, test;
  int64_t label_bytes, label_at, classes;            // of a record, and which of them counts
  std::string path(const std::string& name) const {  // "" if it is missing
    return first_file(root, {name, cat(folder, "/", name)});
  }
};

}  // namespace

static std::string find_cifar(const CifarFiles& files, const std::string& name) {
  if (std::string path = files.path(name); !path.empty()) return path;
  fail(Exit::data, "data.root ", files.root, ": no file ", name, " there or in ", files.folder,
       "; `tools/fetch_data.sh cifar10` fetches CIFAR-10 to datasets/cifar10");
}

// Appends the records of a file.
static void read_records(const CifarFiles& files, const std::string& path,
                         std::vector<uint8_t>& pixels, std::vector<uint8_t>& labels) {
  const std::vector<uint8_t> file = read_bytes(path);
  const int64_t size = std::ssize(file), bytes = files.label_bytes + kPixels;
  if (size == 0 || size % bytes)
    fail(Exit::data, path, ": ", size, " bytes are not whole records of ", bytes, "; after ",
         size / bytes, " of them ", size % bytes, " are left");
  for (auto record = file.begin(); record != file.end(); record += bytes) {
    const uint8_t label = record[files.label_at];
    if (label >= files.classes)
      fail(Exit::data, path, ": record ", (record - file.begin()) / bytes, " has label ",
           int(label), ", not one of 0 to ", files.classes - 1);
    labels.push_back(label);
    pixels.insert(pixels.end(), record + files.label_bytes, record + bytes);
  }
}

// Returns the class names in their file, one per line; without that file, as published.
static std::vector<std::string> names_in(const CifarFiles& files) {
  const std::string path = files.path(files.names);
  if (path.empty() && files.classes > 10) return {};
  if (path.empty())
    return {"airplane", "automobile", "bird",  "cat",  "deer",
            "dog",      "frog",       "horse", "ship", "truck"};
  std::istringstream text(read_file(path, kMostNameBytes, Exit::data));
  std::vector<std::string> names;
  for (std::string name; text >> name;) names.push_back(printable(name));
  if (std::ssize(names) != files.classes)
    fail(Exit::data, path, ": ", names.size(), " names of classes, not ", files.classes);
  return names;
}

static DatasetPtr read_cifar(const CifarFiles& files, Split split, const std::vector<float>& mean,
                             const std::vector<float>& std) {
  std::vector<uint8_t> pixels, labels;
  pixels.reserve((split == Split::train ? 50000 : 10000) * kPixels);
  for (const std::string& name : split == Split::train ? files.train : files.test)
    read_records(files, find_cifar(files, name), pixels, labels);
  const DatasetInfo info{.sample = {3, 32, 32},
                         .classes = files.classes,
                         .names = names_in(files),
                         .mean = mean,
                         .std = std};
  return std::make_shared<MemoryDataset>(info, std::move(pixels), std::move(labels), files.root);
}

static CifarFiles cifar10_files_in(const Cifar10Options& o) {
  CifarFiles files{o.root, "cifar-10-batches-bin", "batches.meta.txt", {}, {"test_batch.bin"}, 1, 0,
                   10};
  for (int i = 1; i <= 5; ++i) files.train.push_back(cat("data_batch_", i, ".bin"));
  return files;
}
static DatasetPtr make_cifar10(const Cifar10Options& o, const DatasetContext& c) {
  return read_cifar(cifar10_files_in(o), c.split, {0.4914f, 0.4822f, 0.4465f},
                    {0.2470f, 0.2435f, 0.2616f});
}

static CifarFiles cifar100_files_in(const Cifar100Options& o) {
  const bool fine = o.labels == CifarLabels::fine;
  return {o.root,
          "cifar-100-binary",
          fine ? "fine_label_names.txt" : "coarse_label_names.txt",
          {"train.bin"},
          {"test.bin"},
          2,
          static_cast<int64_t>(o.labels),
          fine ? 100 : 20};
}
static DatasetPtr make_cifar100(const Cifar100Options& o, const DatasetContext& c) {
  return read_cifar(cifar100_files_in(o), c.split, {0.5071f, 0.4865f, 0.4409f},
                    {0.2673f, 0.2564f, 0.2762f});
}

static const AddEntry<MakeDataset> cifar10_entry("cifar10",
                                                 "photos of ten kinds of things, 3x32x32",
                                                 &make_cifar10);
static const AddEntry<MakeDataset> cifar100_entry("cifar100",
                                                  "photos of a hundred kinds of things, 3x32x32",
                                                  &make_cifar100);

}  // namespace bellows
