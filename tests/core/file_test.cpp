// Durable writing, careful reading, logs whose last line a kill has cut.
#include "core/file.h"
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <fstream>
#include "core/crc32c.h"

using namespace bellows;
using testing::HasSubstr;

namespace {

class Files : public testing::Test {
 protected:
  Files() { std::filesystem::create_directories(folder); }
  ~Files() override { std::filesystem::remove_all(folder); }

  std::string content(const Path& path) { return read_file(path, 1 << 20, Exit::data); }
  std::ptrdiff_t entries() {
    return std::distance(std::filesystem::directory_iterator(folder), {});
  }
  // The message and code of the Error that fn must throw.
  template <class Fn> Error error_of(const Fn& fn) {
    try {
      fn();
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "nothing was thrown";
    return Error("");
  }

  Path folder = Path(testing::TempDir()) / ("bellows_files_" + std::to_string(::getpid()));
};

}  // namespace

// The check value of the polynomial's definition, and the vectors of RFC 3720, B.4.
TEST(Crc32c, GivesThePublishedValues) {
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xe3069283);
  EXPECT_EQ(crc32c(bytes_of(std::string(32, '\0'))), 0x8a9136aa);
  EXPECT_EQ(crc32c(bytes_of(std::string(32, '\xff'))), 0x62a8ab43);
  EXPECT_EQ(crc32c({}), 0u);
}

TEST(Crc32c, ContinuesWhereItStopped) {
  const std::string text = "the fire wants air, and the bellows give it";
  for (size_t cut = 0; cut <= text.size(); ++cut)
    EXPECT_EQ(crc32c(bytes_of(text.substr(cut)), crc32c(bytes_of(text.substr(0, cut)))),
              crc32c(bytes_of(text)));
}

TEST_F(Files, WriteReplacesTheWholeContentAndLeavesNothingElse) {
  const Path path = folder / "a";
  write_file(path, bytes_of("a long first version"));
  const Bytes pieces[] = {bytes_of("se"), {}, bytes_of("cond")};
  write_file(path, pieces);
  EXPECT_EQ(content(path), "second");
  EXPECT_EQ(entries(), 1);
}

TEST_F(Files, WrittenFilesAreReadableByAllWhateverTheUmask) {
  const mode_t before = ::umask(0);
  write_file(folder / "a", bytes_of("x"));
  ::umask(before);
  struct stat info = {};
  ASSERT_EQ(::stat((folder / "a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0644u);
}

TEST_F(Files, WriteReplacesALinkInsteadOfFollowingIt) {
  write_file(folder / "precious", bytes_of("keep"));
  std::filesystem::create_symlink(folder / "precious", folder / "a");
  write_file(folder / "a", bytes_of("new"));
  EXPECT_EQ(content(folder / "precious"), "keep");
  EXPECT_FALSE(std::filesystem::is_symlink(folder / "a"));
}

TEST_F(Files, WriteGoesPastALinkPlantedAtTheTemporaryName) {
  write_file(folder / "precious", bytes_of("keep"));
  for (int n = 0; n < 50; ++n)
    std::filesystem::create_symlink(
        folder / "precious",
        folder / ("a." + std::to_string(::getpid()) + "-" + std::to_string(n) + ".bellows-tmp"));
  write_file(folder / "a", bytes_of("new"));
  EXPECT_EQ(content(folder / "a"), "new");
  EXPECT_EQ(content(folder / "precious"), "keep");
}

TEST_F(Files, FailedWriteNamesPathCallAndReason) {
  const Error error = error_of([&] { write_file(folder / "none\n" / "a", bytes_of("x")); });
  EXPECT_EQ(error.exit, Exit::storage);
  EXPECT_THAT(error.what(), HasSubstr("none\\x0a/a: open: No such file"));
  std::filesystem::create_directory(folder / "in the way");
  EXPECT_THAT(error_of([&] { write_file(folder / "in the way", bytes_of("x")); }).what(),
              HasSubstr("rename: Is a directory"));
  EXPECT_EQ(entries(), 1);
}

TEST_F(Files, RemovesWhatKilledWritersLeftAndNothingElse) {
  write_file(folder / "a.safetensors", bytes_of("x"));
  write_file(folder / "foreign.tmp", bytes_of("x"));
  write_file(folder / "a.safetensors.12-0.bellows-tmp", bytes_of("x"));
  remove_temporaries(folder);
  EXPECT_EQ(entries(), 2);
  remove_temporaries(folder / "not there");
}

TEST_F(Files, ReadRefusesWhatIsNoRegularFileWithoutBlocking) {
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const Path& path : {folder / "pipe", folder, Path("/dev/zero")}) {
    const Error error = error_of([&] { content(path); });
    EXPECT_EQ(error.exit, Exit::data) << path;
    EXPECT_THAT(error.what(), HasSubstr("not a regular file"));
  }
  EXPECT_THAT(error_of([&] { content(folder / "none"); }).what(), HasSubstr("No such file"));
}

TEST_F(Files, ReadRefusesMoreThanItsLimitBeforeAllocating) {
  std::ofstream(folder / "huge").put('x');
  std::filesystem::resize_file(folder / "huge", int64_t{1} << 40);
  EXPECT_THAT(error_of([&] { content(folder / "huge"); }).what(), HasSubstr("1099511627776 bytes"));
}

TEST_F(Files, ReadBeyondTheEndSaysWhereTheFileEnds) {
  write_file(folder / "a", bytes_of("12345"));
  const InputFile file(folder / "a", Exit::data);
  std::array<std::byte, 8> block{};
  EXPECT_THAT(error_of([&] { file.read(2, block); }).what(), HasSubstr("ends at byte 5, 5 early"));
}

// No page of a process is at its address 0, so the kernel says EIO, as for a disk that fails.
TEST_F(Files, AReadThatTheSystemFailsIsStorageWhateverTheFileIsFor) {
  const InputFile memory("/proc/self/mem", Exit::data);
  std::byte byte{};
  const Error error = error_of([&] { memory.read(0, {&byte, 1}); });
  EXPECT_EQ(error.exit, Exit::storage);
  EXPECT_THAT(error.what(), HasSubstr("/proc/self/mem: read: Input/output error"));
}

TEST_F(Files, LogLinesAreAppendedAndACutOneIsRemoved) {
  LineWriter(folder / "log").write("one");
  std::ofstream(folder / "log", std::ios::app) << "{\"cut";
  LineWriter(folder / "log").write("two");
  EXPECT_EQ(content(folder / "log"), "one\ntwo\n");
}

TEST_F(Files, LogRefusesToFollowALink) {
  write_file(folder / "precious", bytes_of("keep"));
  std::filesystem::create_symlink(folder / "precious", folder / "log");
  EXPECT_EQ(error_of([&] { LineWriter(folder / "log"); }).exit, Exit::storage);
}
