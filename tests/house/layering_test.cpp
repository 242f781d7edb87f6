// House rules that a machine can check: allowed includes, and words that belong in one place only.
// Each exception is listed here with its reason.
#include <gtest/gtest.h>
#include <algorithm>
#include <iterator>
#include <map>
#include "core/base/check.h"
#include "tests/house/tree.h"

using namespace bellows;

static const std::set<std::string> kCode = {".h", ".cpp", ".cu", ".cuh"};

// Past the end for a folder that is not listed, so nothing may include it.
static size_t rank_of(const std::string& folder) {
  size_t rank = 0;
  while (rank < kRanks.size() && !std::ranges::count(kRanks[rank], folder)) ++rank;
  return rank;
}

// The room of a file, "." if it lies in the folder itself: "conv" of "ops/conv/conv2d.h".
static std::string room_of(const std::filesystem::path& file) {
  const auto room = std::next(file.begin());
  return std::next(room) == file.end() ? "." : room->string();
}

// Position among the folder's rooms; past the end for one that is not listed. In a folder without a
// list, the folder's own files come first.
static size_t room_rank(const std::string& folder, const std::string& room) {
  const auto rooms = kRooms.find(folder);
  if (rooms == kRooms.end()) return room == "." ? 0 : 1;
  return std::ranges::find(rooms->second, room) - rooms->second.begin();
}

// The file that `line` includes from the project; "" if none.
static std::string included(const std::string& line) {
  const std::string include = "#include \"";
  if (!line.starts_with(include)) return "";
  return line.substr(include.size(), line.rfind('"') - include.size());
}

// The folder or room ("core/device") that `line`, found in `file`, includes against the order; ""
// if none.
static std::string offence(const std::filesystem::path& file, const std::string& line) {
  const std::filesystem::path other = included(line);
  if (other.empty()) return "";
  const std::string folder = *file.begin(), its_folder = *other.begin();
  if (its_folder != folder) return rank_of(its_folder) < rank_of(folder) ? "" : its_folder;
  const std::string room = room_of(file), its_room = room_of(other);
  const bool lower = room_rank(folder, its_room) < room_rank(folder, room);
  return its_room == room || lower ? "" : folder + "/" + its_room;
}

TEST(Layering, FindsUpwardIncludes) {
  const struct {
    const char *file, *other, *offence;
  } cases[] = {
      {"core/base/file.h", "ops/base/op.h", "ops"},
      {"optim/schedule.cpp", "ops/base/op.h", "ops"},
      {"trainer/main.cpp", "tests/house/tree.h", "tests"},
      {"trainer/ab/ab.cpp", "labs/page/page.h", "labs"},
      {"ops/reduce.cpp", "core/base/check.h", ""},
      {"core/base/file.h", "core/device/device.h", "core/device"},
      {"ops/reduce.cpp", "ops/vendor/onednn.h", "ops/vendor"},
      {"ops/base/op.cpp", "ops/reduce.h", "ops/."},
      {"optim/schedule.cpp", "optim/schedules/step.h", "optim/schedules"},
      {"trainer/run/loop.h", "trainer/attic/old.h", "trainer/attic"},
      {"optim/schedules/curves.cpp", "optim/schedule.h", ""},
      {"ops/conv/pool.cpp", "ops/reduce.h", ""},
      {"ops/conv/pool.cpp", "ops/conv/image.cuh", ""},
  };
  for (const auto& [file, other, wanted] : cases)
    EXPECT_EQ(offence(file, cat("#include \"", other, "\"")), wanted) << file << " " << other;
}

TEST(Layering, NoRoomHoldsMoreThanFortyFiles) {
  std::map<std::string, int> files;
  for (const auto& file : files_in(product_folders(), kCode)) ++files[file.parent_path()];
  EXPECT_FALSE(files.empty());
  for (const auto& [room, count] : files) EXPECT_LE(count, 40) << room;
}

TEST(Layering, IncludesGoDownOnly) {
  const auto files = files_in(product_folders(), kCode);
  EXPECT_FALSE(files.empty());
  for (const auto& file : files)
    for (const std::string& line : lines_of(file))
      EXPECT_EQ(offence(file, line), "") << file << " may not: " << line;
}

namespace {

struct Rule {
  std::vector<std::string> words;
  std::string why;
  std::map<std::string, std::string> except = {};  // file to reason
};

}  // namespace

static const std::vector<Rule> kRules = {
    {{"system(", "popen("}, "nothing that a config says may reach a shell"},
    {{"#if", "#ifdef", "#ifndef"},
     "the backend is the file extension",
     {{"core/base/half.h", "HD, what kernels share with the host"},
      {"core/base/pool.cpp", "under sanitizers every block is its own"},
      {"ops/base/maths.h", "GPUs keep CUDA's exp, log and tanh"},
      {"optim/elementwise.h", "the file of an update rule is compiled for each device"},
      {"labs/doctor/machine.cpp", "it tells how it was compiled"}}},
    {{"dlopen("},
     "a library is taken from the system's and the configured folders only",
     {{"core/base/library.cpp", "which sees to that"}}},
    {{"<regex>", "<format>", "<ranges>", "std::views"}, "GCC 12 and clang 14 do not both have it"},
    {{"<yaml-cpp/"},
     "one strict reader stands in front of it",
     {{"core/config/yaml.cpp", "that reader"}}},
    {{"::write(", "::pwrite(", "fsync(", "fdatasync(", "fopen(", "ofstream", "fstream ", "rename("},
     "what has to last goes through one writer, which the fault tests cover",
     {{"core/base/file.cpp", "that writer"}}},
    {{"printf(", "fprintf(", "dprintf(", "puts(", "fputs(", "putchar(", "fwrite(", "perror(",
      "fmt::print(", "std::cout", "std::cerr"},
     "what is printed goes through core/output, where no escape or control byte gets through"},
    {{"thread_local"},
     "hidden state: grad mode, autocast, kernels, current stream and module path, no more",
     {{"autograd/amp.cpp", "autocast"},
      {"autograd/backward.cpp", "whether the running pass may leave gradients in 16 bits"},
      {"autograd/record.cpp", "grad mode"},
      {"autograd/recompute.cpp", "which segment runs, first or again, and what it draws"},
      {"core/device/device.cpp", "current stream, debug.sync_guard"},
      {"core/device/device.cu", "the last launches, for errors; the GPU that the thread entered"},
      {"core/device/graph.cpp", "the graph that this thread captures"},
      {"core/tensor/autotune.cpp", "when the running search must end"},
      {"core/device/device_pool.cpp", "the pool that a captured graph's memory comes from"},
      {"core/device/workers.cpp", "index of a worker"},
      {"core/device/kernel_options.cpp", "kernels"},
      {"core/base/module_path.cpp", "module path"},
      {"core/base/module_path.h", "the kernel that is running, for messages and reports"},
      {"core/base/pool.cpp", "free lists, without meaning to anybody else"}}},
    {{"using namespace bellows"}, "in tests only"},
    {{"cudaStreamSynchronize(", "cudaDeviceSynchronize(", "cudaEventSynchronize(", "cudaMemcpy(",
      "cudaMemset("},
     "the host waits through synchronize() only, which sync.count counts",
     {{"core/device/device.cu", "which calls it"}}},
    {{"cudaMalloc(", "cudaMallocHost(", "cudaHostAlloc(", "cudaHostRegister(", "cudaFree(",
      "cudaFreeHost("},
     "memory comes from one place and returns to it: these calls wait without being counted",
     {{"core/device/device.cu", "that place"}}},
    {{"CUDA_CHECK(status)"}, "the message names the call, and this is the name of a variable"},
    {{"rand(", "srand(", "random_device", "mt19937"},
     "random numbers are functions: core/base/philox.h"},
};

static bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Finds `word` in code, but not in comments and not as the end of a longer word.
static bool contains(const std::string& line, const std::string& word) {
  const std::string code = line.substr(0, line.find("//"));
  for (size_t at = code.find(word); at != std::string::npos; at = code.find(word, at + 1))
    if (at == 0 || !is_word(code[at - 1])) return true;
  return false;
}

static bool breaks(const Rule& rule, const std::string& line) {
  return std::ranges::any_of(rule.words, [&](const auto& word) { return contains(line, word); });
}

TEST(Rules, HoldInEveryFile) {
  for (const auto& file : files_in(product_folders(), kCode)) {
    const auto lines = lines_of(file);
    for (const Rule& rule : kRules)
      for (size_t n = 0; n < lines.size() && !rule.except.contains(file); ++n)
        EXPECT_FALSE(breaks(rule, lines[n]))
            << file.string() << ":" << n + 1 << ": " << lines[n] << "\n  " << rule.why;
  }
}

TEST(Rules, HaveNoIdleExceptions) {
  for (const Rule& rule : kRules)
    for (const auto& [file, reason] : rule.except) {
      if (file.starts_with("labs/") && files_in({"labs"}).empty()) continue;
      const auto lines = lines_of(file);
      EXPECT_TRUE(std::ranges::any_of(lines, [&](const auto& l) { return breaks(rule, l); }))
          << file << " needs no exception any more: " << reason;
    }
}

// Returns the name of the type that a line defines for the whole program, or "". Types within
// others are indented, or named as "struct Nvml::Impl {".
static std::string type_defined_by(const std::string& line) {
  for (const std::string key : {"struct ", "class ", "enum class ", "union "}) {
    if (!line.starts_with(key)) continue;
    const auto end = std::find_if_not(line.begin() + key.size(), line.end(), is_word);
    const bool body = std::find(end, line.end(), '{') != line.end();
    const bool nested = std::distance(end, line.end()) > 1 && end[0] == ':' && end[1] == ':';
    return body && !nested ? std::string(line.begin() + key.size(), end) : "";
  }
  return "";
}

// If two types are named Part, the linker keeps one std::vector<Part> for both.
TEST(OneDefinition, OfEveryTypeInTheProgram) {
  std::map<std::string, std::string> file_of;
  for (const auto& file : files_in(product_folders(), kCode)) {
    std::vector<std::string> spaces;  // the namespaces around the line
    for (const std::string& line : lines_of(file)) {
      if (line.starts_with("namespace ") && line.ends_with(" {"))
        spaces.push_back(line == "namespace {" ? "" : line.substr(10, line.size() - 12));
      if (line.starts_with("}  // namespace") && !spaces.empty()) spaces.pop_back();
      const std::string name = type_defined_by(line);
      if (name.empty() || std::ranges::count(spaces, "")) continue;  // in no other file's sight
      std::string type = name;
      for (const std::string& space : spaces) type.insert(0, space + "::");
      const auto [first, added] = file_of.emplace(type, file);
      EXPECT_TRUE(added || first->second == file) << type << ": " << first->second << ", " << file;
    }
  }
  EXPECT_GT(file_of.size(), 300u);
}

static bool mentions_later_work(const std::string& line) {
  return line.find("TODO") != line.npos || line.find("FIXME") != line.npos;
}

// If only the copy constructor is deleted, assignment still gives one handle two owners.
static bool forbids_half(const std::string& line) {
  const size_t end = line.find("&) = delete"), begin = line.rfind("(const ", end);
  return end != line.npos && begin != line.npos;
}

// Counts code points: a byte of the form 10xxxxxx continues one.
static bool is_wide(const std::string& line) {
  return std::ranges::count_if(line, [](char c) { return (c & 0xc0) != 0x80; }) > 100;
}

// Finds absolute paths that exist on one person's machine only.
static bool knows_a_machine(const std::string& line) {
  for (const std::string folder : {"home", "work", "root", "Users"}) {
    const size_t at = line.find("/" + folder + "/");
    if (at == 0 || (at != line.npos && !is_word(line[at - 1]) && line[at - 1] != '.')) return true;
  }
  return false;
}

TEST(Style, OfEveryLine) {
  const struct {
    const char* why;
    bool (*breaks)(const std::string& line);
    std::set<std::string> folders, extensions;  // beyond those of the product's code
  } rules[] = {
      {"nothing is left for later", mentions_later_work, {}, {}},
      {"X(X&&) = delete;  forbids assignment, too", forbids_half, {"tests", "peers"}, {}},
      {"lines have 100 columns", is_wide, {"tests", "peers", "tools"}, {".sh"}},
      {"no file knows a machine",
       knows_a_machine,
       {"tests", "peers", "tools", "docs", "configs", ".ci"},
       {".md", ".sh", ".py", ".yaml", ""}},
  };
  EXPECT_TRUE(
      forbids_half("  Event(const Event&"
                   ") = delete;"));
  EXPECT_FALSE(forbids_half("  Event(Event&&) = delete;"));
  for (const auto& [why, breaks, more, also] : rules) {
    std::set<std::string> folders = product_folders(), extensions = kCode;
    folders.insert(more.begin(), more.end());
    extensions.insert(also.begin(), also.end());
    for (const auto& file : files_in(folders, extensions)) {
      const auto lines = lines_of(file);
      for (size_t n = 0; n < lines.size(); ++n)
        EXPECT_FALSE(breaks(lines[n])) << file.string() << ":" << n + 1 << ": " << why;
    }
  }
}

TEST(Style, AHeaderBeginsWithWhyItExists) {
  for (const auto& file : files_in(product_folders(), {".h", ".cuh"})) {
    const auto lines = lines_of(file);
    ASSERT_FALSE(lines.empty()) << file;
    EXPECT_TRUE(lines.front().starts_with("// ")) << file;
    EXPECT_TRUE(std::ranges::count(lines, "#pragma once")) << file;
  }
}

// Chains of includes, by file: the longest one that starts at it, itself included.
using Chains = std::map<std::string, std::vector<std::string>>;
static const std::vector<std::string>& longest_chain(const std::string& file, Chains& known) {
  if (const auto found = known.find(file); found != known.end()) return found->second;
  known[file] = {file};  // ends a cycle
  std::vector<std::string> longest;
  for (const std::string& line : lines_of(file))
    if (const std::string other = included(line); !other.empty())
      if (const auto& chain = longest_chain(other, known); chain.size() > longest.size())
        longest = chain;
  longest.insert(longest.begin(), file);
  return known[file] = longest;
}

TEST(Layering, NoChainOfIncludesIsLongerThanTwelve) {
  Chains known;
  size_t longest = 0;
  for (const auto& file : files_in(product_folders(), kCode)) {
    const auto& chain = longest_chain(file, known);
    longest = std::max(longest, chain.size());
    EXPECT_LE(chain.size(), 12u) << testing::PrintToString(chain);
  }
  EXPECT_GT(longest, 5u);  // includes are found
}
