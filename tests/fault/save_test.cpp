// A fault at every call of a save: the file on disk is the old or the new one as a whole, "saved"
// is only printed if it is the new one, and no temporary file remains.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <cerrno>
#include <csignal>
#include "core/tensor/safetensors.h"
#include "tests/fault/plant.h"
#include "tests/trainer/processes.h"
#include "tests/trainer/program.h"

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
  int exit = 0;
  int hits = 0;
  std::vector<std::string> calls;
  std::string said;
};

class Save : public Program {
 protected:
  using Prepare = std::function<void()>;
  std::string program() const override { return FAULT_SAVE; }

  // Overwrites the value 1 with 2 in a process of its own.
  std::unique_ptr<RunningProgram> start_save(const Fault& fault, const Prepare& prepare = {}) {
    write_safetensors(path, {{"w", full({20000}, 1)}});
    std::filesystem::remove(folder_ / "log");
    return start({path, "2"}, [=, this] {
      plant(fault.call, fault.nth, fault.mode, folder_ / "log", fault.error, folder);
      setenv("OMP_NUM_THREADS", "1", 1);
      if (prepare) prepare();
    });
  }
  Outcome end(RunningProgram& save) {
    const Ended ended = save.end();
    Outcome outcome{.exit = ended.code, .calls = {}, .said = ended.out};
    for (const std::string& line : lines_of(read("log"))) {
      if (line == "hit") {
        ++outcome.hits;
      } else if (outcome.calls.empty() || outcome.calls.back() != line) {
        outcome.calls.push_back(line);
      }
    }
    return outcome;
  }
  Outcome run(const Fault& fault, const Prepare& prepare = {}) {
    return end(*start_save(fault, prepare));
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

  const Path folder = write("checkpoints/last.safetensors", "").parent_path();
  const Path path = folder / "last.safetensors";
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
      EXPECT_EQ(outcome.exit, 128 + SIGKILL);
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
  const auto writer = start_save({"rename", 1, "stop"});
  EXPECT_TRUE(eventually([&] { return fields_of(writer->process()).at(0) == "T"; }));
  remove_temporaries(folder);
  EXPECT_EQ(files(), 2);
  writer->send(SIGCONT);
  const Outcome outcome = end(*writer);
  EXPECT_EQ(outcome.said, "saved\n");
  EXPECT_EQ(stored(), 2);
  EXPECT_EQ(files(), 1);
}

TEST_F(Save, FileSizeLimitIsAFailedSave) {
  const Outcome outcome = run({}, [] {
    const rlimit limit = {16 << 10, 16 << 10};
    setrlimit(RLIMIT_FSIZE, &limit);
  });
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
