#include "tests/trainer/program.h"
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include "core/base/check.h"
#include "tests/data/files.h"
#include "tests/data/image_files.h"
#include "tests/place.h"

namespace bellows {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

static std::string content(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Held while a process forks, and while the output of one is read: under ASan a child would wait
// forever for the allocator's lock that another thread held.
static std::mutex forking;

// ---- output

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> values;
  for (const std::string& line : lines_of(text)) values.push_back(Json::parse(line));
  return values;
}

void expect_80_columns(const std::string& text) {
  for (const std::string& line : lines_of(text)) EXPECT_LE(line.size(), 80u) << line;
}

// ---- a run

RunningProgram::~RunningProgram() {
  if (ended(false)) return;
  kill(process_, SIGKILL);
  ended(true);
}

// True if a signal to the whole process waits to be taken.
static bool pending(pid_t process, int signal) {
  const std::string status = content(cat("/proc/", process, "/status")), key = "ShdPnd:\t";
  const size_t at = status.find(key);
  if (at == std::string::npos) return false;  // the process has ended
  return std::stoull(status.substr(at + key.size()), nullptr, 16) >> (signal - 1) & 1;
}

void RunningProgram::send(int signal) const {
  kill(process_, signal);
  for (int i = 0; i < 1000 && pending(process_, signal); ++i) usleep(1000);
}

bool RunningProgram::ended(bool wait) {
  int status = 0;
  if (status_) return true;
  if (waitpid(process_, &status, wait ? 0 : WNOHANG) != process_) return false;
  status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return true;
}

std::string RunningProgram::output(const char* name) const { return content(folder_ / name); }

bool RunningProgram::says(const std::string& text) {
  for (int i = 0; i < 12000; ++i) {  // a minute
    const bool over = ended(false);
    if (output("out").find(text) != std::string::npos) return true;
    if (over) return false;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

Ended RunningProgram::end() {
  ended(true);
  const std::lock_guard lock(forking);
  return {*status_, output("out"), output("err")};
}

// ---- the fixture

Program::Program() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  folder_ = fs::temp_directory_path() /
            cat("bellows_", test->test_suite_name(), "_", test->name(), "_", getpid());
  fs::create_directories(folder_);
}

Program::~Program() {
  if (!HasFailure()) fs::remove_all(folder_);
}

Program::Args Program::tiny(const Args& more) {
  Args args = {"model={name: layers, layers: [flatten, {name: linear, out: 10}]}",
               "data={name: digits, train_size: 64, test_size: 20, batch_size: 16}",
               "log={every: 2, tensorboard: false}", "train.epochs=2"};
  // Arguments in `more` replace these. The program refuses a key that occurs twice.
  for (const std::string& arg : more) {
    const std::string key = arg.substr(0, arg.find('=') + 1);
    std::erase_if(
        args, [&](const std::string& known) { return key.size() > 1 && known.starts_with(key); });
  }
  args.insert(args.begin(), "train");
  return with(args, more);
}

Program::Args Program::on_images(const Args& more) {
  Args args = {"model={name: layers, layers: [flatten, {name: linear, out: 2}]}",
               "data={name: image_folder, batch_size: 2, transforms: [{name: resize, size: 8}, "
               "{name: center_crop, size: 8}, normalize]}"};
  if (std::ranges::none_of(more, [](const auto& arg) { return arg.starts_with("data.root="); }))
    args.push_back("data.root=set");
  return tiny(with(args, more));
}

Program::Args Program::with(Args args, const Args& more) {
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

std::unique_ptr<RunningProgram> Program::start(const Args& args,
                                               const std::function<void()>& in_child) {
  const fs::path output = folder_ / cat(".run", runs_++);
  fs::create_directories(output);
  const std::string file = program(), out_file = output / "out", err_file = output / "err";
  std::vector<char*> argv = {const_cast<char*>("trainer")};
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  const std::lock_guard lock(forking);
  const pid_t process = fork();
  if (process == 0) {
    if (chdir(folder_.c_str()) != 0) _exit(99);
    const int out = open(out_file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    const int err = open(err_file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (dup2(out, 1) < 0 || dup2(err, 2) < 0) _exit(99);
    if (in_child) in_child();
    execv(file.c_str(), argv.data());
    _exit(99);
  }
  return std::make_unique<RunningProgram>(process, output);
}

Ended Program::run(const Args& args, const std::function<void()>& in_child) {
  return start(args, in_child)->end();
}

Ended Program::run_until(const std::string& text, int signal, const Args& args,
                         const std::function<void()>& in_child) {
  const auto running = start(args, in_child);
  EXPECT_TRUE(running->says(text)) << testing::PrintToString(args);
  running->send(signal);
  return running->end();
}

std::string Program::succeed(const Args& args, const std::function<void()>& in_child) {
  const Ended ended = run(args, in_child);
  EXPECT_EQ(ended.code, 0) << testing::PrintToString(args) << "\n" << ended.err;
  return ended.out;
}

void Program::expect_refusal(const Args& args, int code, const std::string& text,
                             const std::function<void()>& in_child) {
  const Ended ended = run(args, in_child);
  SCOPED_TRACE(testing::PrintToString(args));
  EXPECT_EQ(ended.code, code) << ended.err;
  EXPECT_THAT(ended.err, StartsWith("trainer: "));
  EXPECT_EQ(std::ranges::count(ended.err, '\n'), 1) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr(text));
}

std::string Program::program() const { return program_dir() + "/trainer"; }

fs::path Program::write(const std::string& name, const std::string& text) const {
  fs::create_directories((folder_ / name).parent_path());
  std::ofstream(folder_ / name, std::ios::binary) << text;
  return folder_ / name;
}

std::string Program::read(const fs::path& path) const { return content(folder_ / path); }

void Program::write_images(const std::string& root, int each) const {
  for (const char* place : {"/train/a/", "/train/b/", "/val/a/", "/val/b/"})
    for (int i = 0; i < each; ++i) write(cat(root, place, i, ".png"), as_png(slopes(8 + i, 8)));
}

void Program::write_mnist() const {
  for (const std::string split : {"mnist/train", "mnist/t10k"}) {
    write(split + "-images-idx3-ubyte", idx({4, 28, 28}));
    write(split + "-labels-idx1-ubyte", idx({4}));
  }
}

std::vector<Json> Program::rows(const fs::path& run, const std::string& split) const {
  std::vector<Json> rows = json_lines(read(run / "metrics.jsonl"));
  if (!split.empty()) std::erase_if(rows, [&](const Json& row) { return row["split"] != split; });
  return rows;
}

std::vector<std::string> Program::checkpoints(const std::string& run) const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_ / run / "checkpoints"))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

std::string Program::hash_in(const std::string& out) {
  const size_t at = out.find("params hash: ");
  return at == std::string::npos ? "no hash in: " + out : out.substr(at + 13, 8);
}

}  // namespace bellows
