#include "trainer/log/libraries.h"
#include <algorithm>
#include <cctype>
#include <fstream>
#include <set>

namespace bellows {

Libraries loaded_libraries(const std::filesystem::path& maps) {
  std::set<std::string> paths;
  std::ifstream in(maps);
  for (std::string line; std::getline(in, line);) {
    const size_t at = line.find('/');
    if (at != std::string::npos && line.find(".so", at) != std::string::npos)
      paths.insert(line.substr(at));
  }
  return {paths.begin(), paths.end()};
}

// File names without version, variant ("_minimal") or a wheel's hash ("-a34b3233").
static const std::vector<std::string>& names_for(Job job) {
  static const std::vector<std::string> openmp = {"libgomp", "libiomp5", "libomp"};
  static const std::vector<std::string> blas = {"libopenblas", "libopenblasp", "libmkl",  "libblas",
                                                "libcblas",    "libblis",      "libatlas"};
  static const std::vector<std::string> allocator = {"libjemalloc", "libtcmalloc", "libmimalloc",
                                                     "libtbbmalloc"};
  return job == Job::openmp ? openmp : job == Job::blas ? blas : allocator;
}

static bool does(Job job, const std::string& file) {
  return std::ranges::any_of(names_for(job), [&](const std::string& name) {
    return file.starts_with(name) && !std::isalnum(static_cast<unsigned char>(file[name.size()]));
  });
}

std::vector<std::string> libraries_for(Job job, const Libraries& loaded) {
  std::vector<std::string> files;
  for (const std::string& path : loaded) {
    const std::string file = path.substr(path.rfind('/') + 1);
    if (does(job, file)) files.push_back(file);
  }
  return files;
}

}  // namespace bellows
