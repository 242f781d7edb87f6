// image_folder: image files in one folder per class, <root>/train/<class>/x.jpg and
// <root>/val/<class>/y.jpg; or <root>/<class>/x.jpg, with every n-th image held out for testing.
#include <algorithm>
#include "core/base/file.h"
#include "core/config/visitor.h"
#include "data/images/file.h"
#include "data/images/image_file.h"
#include "data/sets/dataset.h"

namespace bellows {

namespace {

namespace fs = std::filesystem;

struct ImageFolderOptions {
  std::string root = "datasets/images", train = "train", test = "val";
  int64_t hold_out = 0;
};
void visit(Visitor& v, ImageFolderOptions& o) {
  v("root", o.root, "folder of the images")
      .resumable()
      .also({"data_dir", "data_path", "data_root", "dataset_root"});
  v("train", o.train, "folder below root with the training images, a folder per class");
  v("test", o.test, "folder below root with the test images");
  v("hold_out", o.hold_out,
    "n: the classes are in `root`, every n-th image is held out for testing",
    {.min = 0, .max = 1e6});
  v.require("hold_out", o.hold_out != 1,
            "must be 0, or 2 or more: 1 would leave no training image");
  const ImageFolderOptions defaults;
  constexpr const char* kUnused = "must be left out with hold_out, which finds the classes in root";
  v.require("train", !o.hold_out || o.train == defaults.train, kUnused);
  v.require("test", !o.hold_out || o.test == defaults.test, kUnused);
}

struct Picked {
  std::vector<std::string> paths = {};
  std::vector<int64_t> labels = {};
  std::vector<std::string> notes = {};
};

class ImageFolder : public Dataset {
 public:
  ImageFolder(const DatasetInfo& info, Picked files) : Dataset(info), files_(std::move(files)) {}
  int64_t size() const override { return static_cast<int64_t>(files_.paths.size()); }
  Sample at_least(int64_t index, const ViewOf& wanted, Scratch& scratch) const override {
    return decode_image(*encoded(index), scratch, wanted);
  }
  std::optional<EncodedSample> encoded(int64_t index) const override {
    return EncodedSample{read_bytes(files_.paths[index]), files_.labels[index]};
  }
  std::string origin(int64_t index) const override { return printable(files_.paths[index]); }
  int64_t label(int64_t index) const override { return files_.labels[index]; }
  std::vector<std::string> notes() const override { return files_.notes; }

 private:
  Picked files_;
};

// Returns the class names, sorted; a label is an index into them.
std::vector<std::string> classes_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::path& path : paths_in(folder, Exit::data))
    if (!is_dangling(path) && kind_of(path, Exit::data) == Kind::folder)
      names.push_back(path.filename());
  if (names.empty())
    fail(Exit::data, printable(folder.native()), ": no folder of a class in there");
  return names;
}

// Returns the folder that contains the class folders.
fs::path folder_of(const ImageFolderOptions& o, Split split) {
  if (o.hold_out) return o.root;
  return fs::path(o.root) / (split == Split::train ? o.train : o.test);
}

void refuse_missing(const ImageFolderOptions& o, Split split) {
  const fs::path folder = folder_of(o, split);
  if (kind_of(folder, Exit::data) != Kind::nothing) return;
  const std::string others =
      cat(", data.", split == Split::train ? "train" : "test", " or, if the folders in ",
          printable(o.root), " are the classes,  data.hold_out=5");
  fail(Exit::data, printable(folder.native()), ": no such folder; set data.root",
       o.hold_out ? "" : others);
}

// Returns the first few names: "a, b, c, ...".
std::string some_of(std::vector<std::string> names) {
  constexpr size_t kMost = 3;
  if (names.size() > kMost) names.resize(kMost), names.emplace_back("...");
  return joined(names);
}

// Returns the class folders in the order of `classes`: those of a model (known), of which some may
// have no folder here (""), or those of the training folder.
std::vector<std::string> folders_of(const ImageFolderOptions& o, const fs::path& folder,
                                    const std::vector<std::string>& classes, bool known) {
  const fs::path training = folder_of(o, Split::train);
  const auto refuse_other = [&](const std::string& name, const fs::path& where) {
    fail(Exit::data, printable(folder.native()), ": other classes than in ",
         printable(training.native()), ": ", name, " is only in ", printable(where.native()));
  };
  std::vector<std::string> folders(classes.size()), others;
  for (const std::string& name : classes_in(folder)) {
    const auto found = std::ranges::find(classes, printable(name));
    if (found == classes.end() && known)
      fail(Exit::data, printable((folder / name).native()), ": not one of the model's ",
           classes.size(), " classes (", some_of(classes), "); rename or move the folder");
    if (found == classes.end())
      others.push_back(name);
    else
      folders[found - classes.begin()] = name;
  }
  for (size_t i = 0; i < folders.size(); ++i)
    if (!known && folders[i].empty()) refuse_other(classes[i], training);
  if (!others.empty()) refuse_other(printable(others[0]), folder);
  return folders;
}

// Collects the images of a split. `classes`: names of the class folders; a label is an index.
Picked pick(const ImageFolderOptions& o, const std::vector<std::string>& classes, Split split) {
  const fs::path folder = folder_of(o, split);
  Picked files;
  LeftOut left_out;
  std::vector<std::string> empty;
  for (const fs::path& path : paths_in(folder, Exit::data))
    if (const bool broken = is_dangling(path); broken || kind_of(path, Exit::data) != Kind::folder)
      left_out.emplace_back(broken ? "broken link" : "outside of a class folder", path);
  for (size_t label = 0; label < classes.size(); ++label) {
    if (classes[label].empty()) continue;
    const auto [images, others] = images_below(folder / classes[label]);
    std::ranges::copy(others, std::back_inserter(left_out));
    const size_t before = files.paths.size();
    for (size_t i = 0; i < images.size(); ++i) {
      if (o.hold_out && (i % o.hold_out == 0) == (split == Split::train)) continue;
      files.paths.push_back(images[i]);
      files.labels.push_back(static_cast<int64_t>(label));
    }
    if (split == Split::train ? files.paths.size() == before : images.empty())
      empty.push_back(printable(classes[label]));
  }
  if (!left_out.empty()) files.notes = {"warning: " + text_of(folder, left_out)};
  if (!empty.empty() && (split == Split::train || files.paths.empty()))
    fail(Exit::data, printable(folder.native()), ": no image ",
         o.hold_out ? "is left to train on " : "", "for ", some_of(empty),
         "; add images (.jpg, .png, .bmp, .ppm, .webp), or remove the folders");
  return files;
}

}  // namespace

static DatasetPtr make_image_folder(const ImageFolderOptions& o, const DatasetContext& c) {
  const fs::path folder = folder_of(o, c.split);
  refuse_missing(o, c.split);
  const bool known = !c.classes.empty();
  std::vector<std::string> classes = c.classes;
  if (!known)
    for (const std::string& name : classes_in(folder_of(o, Split::train)))
      classes.push_back(printable(name));
  const std::vector<std::string> folders = folders_of(o, folder, classes, known);
  if (o.hold_out && folders == std::vector{o.train, o.test})
    fail(Exit::data, printable(o.root), ": ", o.train, " and ", o.test,
         " are splits, not classes; leave data.hold_out out");
  const DatasetInfo info{.input = {DType::u8, {3, 0, 0}},
                         .classes = static_cast<int64_t>(classes.size()),
                         .names = classes,
                         .mean = {0.485f, 0.456f, 0.406f},
                         .std = {0.229f, 0.224f, 0.225f}};
  return std::make_shared<ImageFolder>(info, pick(o, folders, c.split));
}

static const AddDataset image_folder_entry("image_folder", "image files, one folder per class",
                                           &make_image_folder,
                                           {"folder", "images", "photos", "jpeg", "jpg", "png",
                                            "imagenet", "ImageFolder"});

}  // namespace bellows
