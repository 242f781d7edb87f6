// Runs the real program as a user does, each test in an empty folder of its own.
#pragma once
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace bellows {

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
  std::unique_ptr<RunningProgram> start(const Args& args,
                                        const std::function<void()>& in_child = {});
  Ended run(const Args& args, const std::function<void()>& in_child = {});
  // Expects that exit code and exactly one line on stderr, "trainer: ...", that contains the text.
  void expect_refusal(const Args& args, int code, const std::string& text,
                      const std::function<void()>& in_child = {});

  std::filesystem::path write(const std::string& name, const std::string& text) const;
  std::string read(const std::filesystem::path& path) const;
  std::vector<std::string> checkpoints(const std::string& run = "runs/run") const;
  static std::string hash_in(const std::string& out);  // "params hash: ..."
  virtual std::string program() const;                 // path of the executable

  std::filesystem::path folder_;
  int runs_ = 0;
};

}  // namespace bellows
