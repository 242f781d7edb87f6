// cifar10: CIFAR-10 in its binary format. A file is a sequence of records: a label byte, then
// planes of 32x32 bytes for red, green and blue.
#include <sstream>
#include "core/base/file.h"
#include "core/config/visitor.h"
#include "data/images/file.h"
#include "data/sets/dataset.h"

namespace bellows {

namespace {

constexpr int64_t kPixels = 3 * 32 * 32, kRecord = 1 + kPixels;
constexpr int64_t kMostNameBytes = 1 << 16;

struct Cifar10Options {
  std::string root = "datasets/cifar10";
};
void visit(Visitor& v, Cifar10Options& o) {
  v("root", o.root, "folder of the .bin files, or the one that the archive was unpacked in");
}

}  // namespace

static constexpr const char* kNames = "batches.meta.txt";

// Returns the path of a file; "" if it is missing.
static std::string cifar10_path(const std::string& root, const std::string& name) {
  return first_file(root, {name, "cifar-10-batches-bin/" + name});
}

static std::string find_cifar10(const std::string& root, const std::string& name) {
  std::string path = cifar10_path(root, name);
  if (!path.empty()) return path;
  fail(Exit::data, "data.root ", root, ": no file ", name,
       " there or in cifar-10-batches-bin; `tools/fetch_data.sh cifar10` fetches it to "
       "datasets/cifar10");
}

// Appends the records of a file.
static void read_records(const std::string& path, std::vector<uint8_t>& pixels,
                         std::vector<uint8_t>& labels) {
  const std::vector<uint8_t> file = read_bytes(path);
  const auto size = static_cast<int64_t>(file.size());
  if (size == 0 || size % kRecord)
    fail(Exit::data, path, ": ", size, " bytes are not whole records of ", kRecord, "; after ",
         size / kRecord, " of them ", size % kRecord, " are left");
  for (auto record = file.begin(); record != file.end(); record += kRecord) {
    if (*record > 9)
      fail(Exit::data, path, ": record ", (record - file.begin()) / kRecord, " has label ",
           int(*record), ", not one of 0 to 9");
    labels.push_back(*record);
    pixels.insert(pixels.end(), record + 1, record + kRecord);
  }
}

// Returns the class names in kNames, one per line; without that file, as published.
static std::vector<std::string> names_in(const std::string& root) {
  const std::string path = cifar10_path(root, kNames);
  if (path.empty())
    return {"airplane", "automobile", "bird",  "cat",  "deer",
            "dog",      "frog",       "horse", "ship", "truck"};
  std::istringstream text(read_file(path, kMostNameBytes, Exit::data));
  std::vector<std::string> names;
  for (std::string name; text >> name;) names.push_back(printable(name));
  if (names.size() != 10) fail(Exit::data, path, ": ", names.size(), " names of classes, not 10");
  return names;
}

static std::vector<std::string> names_of(Split split) {
  if (split == Split::test) return {"test_batch.bin"};
  std::vector<std::string> names;
  for (int i = 1; i <= 5; ++i) names.push_back(cat("data_batch_", i, ".bin"));
  return names;
}

static DatasetPtr make_cifar10(const Cifar10Options& o, const DatasetContext& c) {
  const std::vector<std::string> names = names_of(c.split);
  std::vector<uint8_t> pixels, labels;
  pixels.reserve(names.size() * 10000 * kPixels);
  for (const std::string& name : names) read_records(find_cifar10(o.root, name), pixels, labels);
  const DatasetInfo info{.sample = {3, 32, 32},
                         .classes = 10,
                         .names = names_in(o.root),
                         .mean = {0.4914f, 0.4822f, 0.4465f},
                         .std = {0.2470f, 0.2435f, 0.2616f}};
  return std::make_shared<MemoryDataset>(info, std::move(pixels), std::move(labels), o.root);
}

static Sources cifar10_sources(const Cifar10Options& o) {
  Sources files = {cifar10_path(o.root, kNames)};
  for (const Split split : {Split::train, Split::test})
    for (const std::string& name : names_of(split)) files.push_back(cifar10_path(o.root, name));
  return files;
}

static const AddSources cifar10_files("cifar10", &cifar10_sources);
static const AddEntry<MakeDataset> cifar10_entry("cifar10",
                                                 "photos of ten kinds of things, 3x32x32",
                                                 &make_cifar10);

}  // namespace bellows
