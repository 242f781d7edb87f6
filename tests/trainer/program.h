// Runs the real program as a user does, each test in an empty folder of its own.
#pragma once
#include <sys/resource.h>
#include <sys/types.h>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>
#include "core/base/json.h"
#include "tests/matchers.h"

namespace bellows {

std::vector<std::string> lines_of(const std::string& text);
std::vector<Json> json_lines(const std::string& text);  // one value per line
void expect_80_columns(const std::string& text);

struct Ended {
  int code = 0;  // exit code; 128 + signal if one ended it
  std::string out, err;
};

// A process that was started. The destructor kills it.
class RunningProgram {
 public:
  RunningProgram(pid_t process, std::filesystem::path folder)
      : process_(process), folder_(std::move(folder)) {}
  RunningProgram(RunningProgram&&) = delete;
  ~RunningProgram();
  // Waits, up to a second, until the process has taken it: two that are pending are one.
  void send(int signal) const;
  pid_t process() const { return process_; }
  // Waits until the output contains the text or the process ends. Returns false after ten seconds.
  bool says(const std::string& text);
  bool over() { return ended(false); }
  Ended end();

 private:
  bool ended(bool wait);
  std::string output(const char* name) const;

  pid_t process_;
  std::filesystem::path folder_;
  std::optional<int> status_;
};

class Program : public testing::Test {
 protected:
  using Args = std::vector<std::string>;
  Program();
  ~Program() override;

  // Arguments of a tiny run: 4 updates per epoch of a small model on 64 digits.
  static Args tiny(const Args& more);
  // Arguments of such a run on images, by default those of write_images("set", ...).
  static Args on_images(const Args& more = {});
  static Args with(Args args, const Args& more);  // both, in that order
  std::unique_ptr<RunningProgram> start(const Args& args,
                                        const std::function<void()>& in_child = {});
  Ended run(const Args& args, const std::function<void()>& in_child = {});
  // Sends the signal once stdout has that text.
  Ended run_until(const std::string& text, int signal, const Args& args,
                  const std::function<void()>& in_child = {});
  // Expects exit code 0. Returns stdout.
  std::string succeed(const Args& args, const std::function<void()>& in_child = {});
  // Expects that exit code and exactly one line on stderr, "trainer: ...", that contains the text.
  void expect_refusal(const Args& args, int code, const std::string& text,
                      const std::function<void()>& in_child = {});

  std::filesystem::path write(const std::string& name, const std::string& text) const;
  std::string read(const std::filesystem::path& path) const;
  // Writes that many images of at least 8 x 8 of each class: ROOT/{train,val}/{a,b}/0.png, ...
  void write_images(const std::string& root, int each) const;
  void write_mnist() const;  // 4 images of each split, with labels 0 to 3, in mnist/
  // Rows of a run's metrics.jsonl, of one split unless that is "".
  std::vector<Json> rows(const std::filesystem::path& run, const std::string& split = "") const;
  std::vector<std::string> checkpoints(const std::string& run = "runs/run") const;
  static std::string hash_in(const std::string& out);  // "params hash: ..."
  virtual std::string program() const;                 // path of the executable

  std::filesystem::path folder_;
  int runs_ = 0;
};

}  // namespace bellows
