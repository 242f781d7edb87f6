// A fault at every call of a save: the file on disk is the old or the new one as a whole, "saved"
// is only printed if it is the new one, and no temporary file remains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <thread>
#include "core/tensor/safetensors.h"

using namespace bellows;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

struct Fault {
  std::string call;
  int nth = 0;
  std::string mode = "once";
  int error = EIO;
};
std::string text_of(const Fault& f) { return cat(f.call, " ", f.nth, " ", f.mode, " ", f.error); }

struct Outcome {
  int exit = -1;  // -1: killed
  int hits = 0;
  std::vector<std::string> calls;
  std::string said;
};

class Save : public testing::Test {
 protected:
  Save() { std::filesystem::create_directories(folder); }
  ~Save() override { std::filesystem::remove_all(base); }

  // Overwrites the value 1 with 2 in a process of its own.
  Outcome run(const Fault& fault, const std::string& before = "") {
    write_safetensors(path, {{"w", full({20000}, 1)}});
    std::filesystem::remove(base / "log");
    const std::string command =
        cat(before, " exec env FAULT_FOLDER=", folder.native(),
            " FAULT_LOG=", (base / "log").native(), " FAULT_CALL=", fault.call,
            " FAULT_NTH=", fault.nth, " FAULT_MODE=", fault.mode, " FAULT_ERRNO=", fault.error,
            " OMP_NUM_THREADS=1 LD_PRELOAD=" FAULT_PRELOAD " " FAULT_SAVE " ", path.native(),
            " 2 > ", (base / "said").native());
    const int status = std::system(command.c_str());
    Outcome outcome;
    if (WIFEXITED(status)) outcome.exit = WEXITSTATUS(status);
    std::ifstream log(base / "log");
    for (std::string line; std::getline(log, line);) {
      if (line == "hit") {
        ++outcome.hits;
      } else if (outcome.calls.empty() || outcome.calls.back() != line) {
        outcome.calls.push_back(line);
      }
    }
    outcome.said = read_file(base / "said", 4096, Exit::internal);
    return outcome;
  }

  // Plants the fault at the first call of its kind, at the second, and so on. After each save that
  // it hits, calls check() and expects a single file.
  void at_each_call(Fault fault, const std::function<void(const Fault&, const Outcome&)>& check) {
    for (;; ++fault.nth) {
      const Outcome outcome = run(fault);
      SCOPED_TRACE(text_of(fault) + ": " + outcome.said);
      if (outcome.hits == 0) {
        EXPECT_GT(fault.nth, 1) << "never happened";
        EXPECT_EQ(outcome.exit, 0);
        return;
      }
      check(fault, outcome);
      EXPECT_EQ(files(), 1);
    }
  }

  // Throws if the file is damaged.
  float stored() { return read_safetensors(path).tensors.at(0).tensor.data<float>()[19999]; }
  std::ptrdiff_t files() { return std::distance(std::filesystem::directory_iterator(folder), {}); }

  Path base = Path(testing::TempDir()) / ("bellows_fault_" + std::to_string(::getpid()));
  Path folder = base / "checkpoints";
  Path path = folder / "last.safetensors";
};

}  // namespace

// A kill cannot show a missing fsync, because the page cache outlives the process; this can.
TEST_F(Save, SyncsTheFileBeforeItsRenameAndTheFolderAfterIt) {
  const Outcome outcome = run({});
  EXPECT_EQ(outcome.exit, 0);
  EXPECT_EQ(outcome.said, "saved\n");
  EXPECT_THAT(outcome.calls,
              ElementsAre("create", "flock", "write", "fsync file", "close", "open", "read",
                          "close", "rename", "open", "fsync folder", "close"));
  EXPECT_EQ(stored(), 2);
}

TEST_F(Save, FailedCallLeavesOneWholeFileAndIsNeverReportedAsSaved) {
  for (const auto& [call, error] : {std::pair("open", EACCES),
                                    {"write", ENOSPC},
                                    {"read", EIO},
                                    {"fsync", EIO},
                                    {"close", EIO},
                                    {"rename", EACCES}})
    for (const char* mode : {"once", "persist"})
      at_each_call({call, 1, mode, error}, [&](const Fault& fault, const Outcome& outcome) {
        // Closing a file that was only read loses nothing.
        const bool harmless = fault.call == "close" && fault.nth > 1;
        EXPECT_EQ(outcome.exit, harmless ? 0 : static_cast<int>(Exit::storage));
        EXPECT_EQ(outcome.said == "saved\n", harmless);
        if (fault.call == "write") {
          EXPECT_THAT(outcome.said,
                      HasSubstr("write: No space left on device; free some space or choose"));
        }
        const auto rename = std::ranges::find(outcome.calls, "rename");
        const bool renamed = outcome.calls.end() - rename > 1;  // something came after it
        EXPECT_EQ(stored(), renamed ? 2 : 1);
      });
}

TEST_F(Save, ShortAndInterruptedCallsAreCompleted) {
  for (const Fault& kind : {Fault{"write", 1, "short"}, Fault{"write", 1, "once", EINTR},
                            Fault{"read", 1, "once", EINTR}, Fault{"fsync", 1, "once", EINTR},
                            Fault{"open", 1, "once", EINTR}, Fault{"close", 1, "once", EINTR}})
    at_each_call(kind, [&](const Fault&, const Outcome& outcome) {
      EXPECT_EQ(outcome.exit, 0);
      EXPECT_EQ(stored(), 2);
    });
}

TEST_F(Save, KillAtAnyCallLeavesOneWholeFile) {
  for (const char* call : {"open", "write", "read", "fsync", "close", "rename"})
    at_each_call({call, 1, "kill"}, [&](const Fault&, const Outcome& outcome) {
      EXPECT_EQ(outcome.exit, -1);
      EXPECT_EQ(outcome.said, "");
      const float value = stored();
      EXPECT_TRUE(value == 1 || value == 2);
      remove_temporaries(folder);
    });
}

TEST_F(Save, AFileSystemWithoutLocksIsNoFailure) {
  const Outcome outcome = run({"flock", 1, "persist", ENOLCK});
  EXPECT_EQ(outcome.hits, 1);
  EXPECT_EQ(outcome.said, "saved\n");
  EXPECT_EQ(stored(), 2);
  EXPECT_EQ(files(), 1);
}

// At its rename the file is complete and closed, but its writer is still alive.
TEST_F(Save, AStoppedWriterKeepsItsTemporaryFile) {
  Outcome outcome;
  std::thread writer([&] { outcome = run({"rename", 1, "stop"}); });
  const auto stopped = [&]() -> pid_t {  // "last.safetensors.<process>-0.bellows-tmp"
    for (const Path& file : paths_in(folder, Exit::internal)) {
      if (file.extension() != ".bellows-tmp") continue;
      const pid_t process = std::stoi(file.stem().extension().string().substr(1));
      std::string state;
      std::getline(std::ifstream(cat("/proc/", process, "/stat")), state);
      if (state.find(") T ") != std::string::npos) return process;
    }
    return 0;
  };
  pid_t process = 0;
  for (int i = 0; i < 6000 && !(process = stopped()); ++i) usleep(10000);
  remove_temporaries(folder);
  EXPECT_EQ(files(), 2);
  if (process) ::kill(process, SIGCONT);
  writer.join();
  EXPECT_EQ(outcome.said, "saved\n");
  EXPECT_EQ(stored(), 2);
  EXPECT_EQ(files(), 1);
}

TEST_F(Save, FileSizeLimitIsAFailedSave) {
  const Outcome outcome = run({}, "ulimit -f 32;");
  EXPECT_EQ(outcome.exit, static_cast<int>(Exit::storage));
  EXPECT_THAT(outcome.said, HasSubstr("last.safetensors: write: File too large; free some space"));
  EXPECT_EQ(stored(), 1);
  EXPECT_EQ(files(), 1);
}

TEST_F(Save, WhatReadsBackOtherThanItWasWrittenNeverReplacesTheOldFile) {
  for (int nth = 1; nth <= 3; ++nth) {
    const Outcome outcome = run({"write", nth, "damage"});
    EXPECT_EQ(outcome.hits, 1);
    EXPECT_EQ(outcome.exit, static_cast<int>(Exit::storage));
    EXPECT_THAT(outcome.said, HasSubstr("reads back other than it was written"));
    EXPECT_EQ(stored(), 1);
    EXPECT_EQ(files(), 1);
  }
}
