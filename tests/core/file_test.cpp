// Durable writes, checked reads, and logs whose last line was cut by a kill.
#include "core/base/file.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <fstream>
#include <thread>
#include "core/base/crc32c.h"
#include "tests/matchers.h"
#include "tests/refusal.h"
#include "tests/temp_folder.h"

using namespace bellows;

namespace {

class Files : public testing::Test {
 protected:
  std::string content(const Path& path) { return read_file(path, 1 << 20, Exit::data); }
  std::ptrdiff_t entries() {
    return std::distance(std::filesystem::directory_iterator(folder), {});
  }

  const TempFolder temporary;
  const Path folder = temporary.path;
};

}  // namespace

// Check value from the definition of CRC-32C, and the vectors of RFC 3720, B.4.
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

TEST_F(Files, WrittenFilesRespectTheUmask) {
  for (const mode_t mask : {0u, 022u, 027u, 077u}) {
    const mode_t before = ::umask(mask);
    write_file(folder / "a", bytes_of("x"));
    std::filesystem::remove(folder / "log");
    LineWriter(folder / "log").write("x");
    ::umask(before);
    for (const char* name : {"a", "log"}) {
      struct stat info = {};
      ASSERT_EQ(::stat((folder / name).c_str(), &info), 0);
      EXPECT_EQ(info.st_mode & 0777, 0666u & ~mask) << name;
    }
  }
}

TEST_F(Files, WriteRefusesWhatIsNoRegularFileAndLeavesItThere) {
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink(folder / "pipe", folder / "link");
  const Descriptor redirected(::open((folder / "log").c_str(), O_WRONLY | O_CREAT, 0600));
  std::filesystem::create_symlink("/proc/self/fd/" + std::to_string(redirected.get()),
                                  folder / "stdout");  // like /dev/stdout
  std::vector<Path> special = {folder / "pipe", folder / "link", folder / "stdout"};
  const Path device = folder / "null";
  if (::mknod(device.c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0) special.push_back(device);
  const auto before = entries();
  for (const Path& path : special) {
    const auto status = std::filesystem::symlink_status(path).type();
    EXPECT_THAT(complaint(Exit::storage, [&] { write_file(path, bytes_of("x")); }),
                HasSubstr("not a regular file; choose another name"))
        << path;
    EXPECT_EQ(std::filesystem::symlink_status(path).type(), status) << path;
  }
  EXPECT_EQ(entries(), before);
}

TEST_F(Files, WriteReplacesALinkAndALogRefusesIt) {
  write_file(folder / "precious", bytes_of("keep"));
  std::filesystem::create_symlink(folder / "precious", folder / "a");
  write_file(folder / "a", bytes_of("new"));
  EXPECT_EQ(content(folder / "precious"), "keep");
  EXPECT_FALSE(std::filesystem::is_symlink(folder / "a"));
  std::filesystem::create_symlink(folder / "precious", folder / "log");
  complaint(Exit::storage, [&] { LineWriter(folder / "log"); });
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
  EXPECT_THAT(complaint(Exit::storage, [&] { write_file(folder / "none\n/a", bytes_of("x")); }),
              HasSubstr("none\\x0a/a: open: No such file"));
  std::filesystem::create_directory(folder / "in the way");
  EXPECT_THAT(refusal([&] { write_file(folder / "in the way", bytes_of("x")); }),
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

// ---- descriptors

// The reader is slow, and the pipe is non-blocking, like a terminal that ssh has set up so.
TEST_F(Files, WritesAllOfItToAPipeThatDoesNotBlock) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_NONBLOCK), 0);
  Descriptor to(ends[1]);
  const Descriptor from(ends[0]);
  const std::string text(1 << 20, 'x');
  bool written = false;
  std::thread writer([&] {
    written = write_fully(to.get(), bytes_of(text));
    ::close(to.release());
  });
  ::usleep(20000);  // the pipe is full by now
  size_t seen = 0;
  std::string block(1 << 14, '\0');
  while (seen < text.size()) {
    const ssize_t n = ::read(from.get(), block.data(), block.size());
    if (n > 0) seen += static_cast<size_t>(n);
    if (n == 0) break;
  }
  writer.join();
  EXPECT_TRUE(written);
  EXPECT_EQ(seen, text.size());
}

TEST_F(Files, ReadRefusesWhatIsNoRegularFileWithoutBlocking) {
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const Path& path : {folder / "pipe", folder, Path("/dev/zero")})
    EXPECT_THAT(complaint(Exit::data, [&] { content(path); }), HasSubstr("not a regular file"))
        << path;
  EXPECT_THAT(refusal([&] { content(folder / "none"); }), HasSubstr("No such file"));
}

TEST_F(Files, ReadRefusesMoreThanItsLimitBeforeAllocating) {
  std::ofstream(folder / "huge").put('x');
  std::filesystem::resize_file(folder / "huge", int64_t{1} << 40);
  EXPECT_THAT(refusal([&] { content(folder / "huge"); }), HasSubstr("1099511627776 bytes"));
}

TEST_F(Files, ReadBeyondTheEndSaysWhereTheFileEnds) {
  write_file(folder / "a", bytes_of("12345"));
  const InputFile file(folder / "a", Exit::data);
  std::array<std::byte, 8> block{};
  EXPECT_THAT(refusal([&] { file.read(2, block); }), HasSubstr("ends at byte 5, 5 early"));
}

// Address 0 of a process is never mapped, so reading it fails with EIO, like a broken disk.
TEST_F(Files, AReadThatTheSystemFailsIsStorageWhateverTheFileIsFor) {
  const InputFile memory("/proc/self/mem", Exit::data);
  std::byte byte{};
  EXPECT_THAT(complaint(Exit::storage, [&] { memory.read(0, std::span(&byte, 1)); }),
              HasSubstr("/proc/self/mem: read: Input/output error"));
}

TEST_F(Files, LogLinesAreAppendedAndACutOneIsRemoved) {
  LineWriter(folder / "log").write("one");
  std::ofstream(folder / "log", std::ios::app) << "{\"cut";
  LineWriter(folder / "log").write("two");
  EXPECT_EQ(content(folder / "log"), "one\ntwo\n");
}

// Returns the number of read() and pread() calls by this process so far.
static int64_t reads() {
  std::ifstream io("/proc/self/io");
  for (std::string word; io >> word;)
    if (int64_t calls = 0; word == "syscr:" && io >> calls) return calls;
  return 0;
}

// A power cut can leave such zeros.
TEST_F(Files, ALogThatEndsInMegabytesOfZerosIsCutInAFewReads) {
  write_file(folder / "log", bytes_of("one\n"));
  std::filesystem::resize_file(folder / "log", 20 << 20);
  const int64_t before = reads();
  LineWriter(folder / "log").write("two");
  EXPECT_LT(reads() - before, 1000);
  EXPECT_EQ(content(folder / "log"), "one\ntwo\n");
  std::filesystem::resize_file(folder / "log", uint64_t{1} << 40);
  EXPECT_THAT(refusal([&] { LineWriter(folder / "log"); }),
              HasSubstr("/log: no line ends in its last 64 MiB; it is not a log, move it away"));
}
