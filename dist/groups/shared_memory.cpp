#include "dist/groups/shared_memory.h"
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <climits>
#include <fstream>
#include <sstream>
#include "core/base/trace.h"
#include "dist/rendezvous/sockets.h"

namespace bellows {

// Every rank reads the values of all, so with more ranks this is not faster than Gloo's ring.
static constexpr int kMostRanks = 8;
// A power of two, so that number % kSlots stays consecutive when the numbers of chunks wrap around.
// They start at kFirst, so that they wrap after 2 * kSlots chunks, also in tests.
static constexpr uint32_t kSlots = 16;
static constexpr uint32_t kFirst = 0U - 2 * kSlots;
// Slots of two ranks fit into a cache, and a chunk outweighs the exchange of two numbers.
static constexpr size_t kChunk = 64 << 10;
// About as long as it takes to wake a sleeping thread.
static constexpr std::chrono::microseconds kSpin(50);

// Initially zero. Each rank's numbers have cache lines of their own.
struct SharedMemory::Layout {
  using Number = std::atomic<uint32_t>;
  static_assert(Number::is_always_lock_free);
  struct Rank {
    alignas(64) Number put, read;  // number of chunks that the rank has put, and read
    size_t bytes[kSlots];          // size of the message to which the slot's chunk belongs
  };

  alignas(64) Number bell, sleepers, closed;
  Rank ranks[kMostRanks];
  alignas(4096) std::byte slots[][kSlots][kChunk];  // slots by rank

  static size_t size(int world) { return sizeof(Layout) + world * kSlots * kChunk; }
};

// ---- how ranks find the memory

// Returns a text that is equal on all ranks that can share memory; "" if the system hides it.
static std::string machine() {
  std::string text;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> text;
  for (const char* space : {"/proc/thread-self/ns/net", "/proc/thread-self/ns/pid"}) {
    std::error_code unknown;
    text += cat(" ", std::filesystem::read_symlink(space, unknown).string());
    if (unknown) return "";
  }
  return text;
}

// Creates memory of that size without a name, which nobody can resize. Returns its file; negative:
// none.
static int create(size_t bytes) {
  const int file = memfd_create("bellows ranks", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) check_lack(errno, "gloo: no connections");
  if (file < 0 || (posix_fallocate(file, 0, off_t(bytes)) == 0 &&
                   fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0))
    return file;
  close(file);
  return -1;
}

// Opens the memory of rank 0, which keeps its file open meanwhile. `place` is its process and
// descriptor. Returns a file; negative: it belongs to another user, or to a process that this one
// may not look into. Throws Error, exit 7, for any file that create() has not made: a foreign rank
// 0 could make this rank write into it, or cut it off while it is mapped.
static int open_at(const std::string& place, size_t bytes) {
  int64_t process = 0, number = -1;
  std::istringstream(place) >> process >> number;
  const std::string path = cat("/proc/", process, "/fd/", number);
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return -1;
  // Opening a device may have an effect, so the kind of file is checked before.
  Descriptor file(S_ISREG(status.st_mode) ? open(path.c_str(), O_RDWR | O_CLOEXEC) : -1);
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  const int seals = fcntl(file.get(), F_GET_SEALS);  // negative for a file on a disk
  if (seals < 0 || (seals & kSeals) != kSeals || fstat(file.get(), &status) != 0 ||
      status.st_nlink != 0 || size_t(status.st_size) != bytes)
    fail(Exit::distributed, "gloo: rank 0 names '", path, "' as the memory that all ranks share, ",
         "but that is another file; find out which program runs as rank 0");
  return status.st_uid == geteuid() ? file.release() : -1;
}

// Each rank publishes one value: rank 0 where its memory is, the others whether they have mapped it
// ("" if not). Rank 0 keeps its file open until it has all values.
std::unique_ptr<SharedMemory> SharedMemory::join(const Ranks& ranks, Store& store,
                                                 const std::string& prefix, Timeout timeout,
                                                 bool willing) {
  if (ranks.world > kMostRanks) return nullptr;
  const auto end = deadline_after(timeout);
  const auto value_of = [&](int rank) -> std::string {
    const std::string key = cat(prefix, rank);
    if (store.wait(key, until(end))) return store.get(key, Timeout(0));
    store.end_within(Timeout(1000));
    store.wait(key, Timeout(0));  // throws if rank 0 is stuck
    fail(Exit::distributed, "gloo: rank ", rank, " did not connect within ",
         double(timeout.count()) / 1000, " s; look at its last lines");
  };
  const size_t bytes = Layout::size(ranks.world);
  const std::string here = machine(), place = ranks.rank ? value_of(0) : here;
  willing = willing && !here.empty() && place.ends_with(here);
  const Descriptor file(!willing ? -1 : ranks.rank ? open_at(place, bytes) : create(bytes));
  void* const mapped =
      file.get() < 0 ? MAP_FAILED
                     : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  std::unique_ptr<SharedMemory> memory;
  if (mapped != MAP_FAILED) memory.reset(new SharedMemory(mapped, ranks));
  store.set(cat(prefix, ranks.rank), memory ? cat(getpid(), " ", file.get(), " ", here) : "");
  for (int r = 0; r < ranks.world; ++r)
    if (value_of(r).empty()) memory = nullptr;
  return memory;
}

SharedMemory::SharedMemory(void* memory, const Ranks& ranks)
    : shared_(*static_cast<Layout*>(memory)),
      rank_(ranks.rank),
      world_(ranks.world),
      numbered_(kFirst) {
  shared_.ranks[rank_].put = shared_.ranks[rank_].read = kFirst;
}
SharedMemory::~SharedMemory() { munmap(&shared_, Layout::size(world_)); }

// ---- messages

// True if number a comes before b.
static bool before(uint32_t a, uint32_t b) { return int32_t(a - b) < 0; }
static uint32_t chunks_of(size_t bytes) { return uint32_t((bytes + kChunk - 1) / kChunk); }

std::byte* SharedMemory::slot(int rank, uint32_t number) const {
  return shared_.slots[rank][number % kSlots];
}

bool SharedMemory::start(Message& message) {
  message.first = numbered_;
  numbered_ += chunks_of(message.bytes);
  return put(message);
}

// Puts chunks of the message while they are next and have free slots. Returns true if all chunks
// have been put.
bool SharedMemory::put(const Message& message) {
  Layout::Rank& mine = shared_.ranks[rank_];
  const uint32_t chunks = chunks_of(message.bytes);
  uint32_t next = mine.put;
  const auto free = [&](const Layout::Rank& rank) { return before(next, rank.read + kSlots); };
  for (; next - message.first < chunks && std::all_of(shared_.ranks, shared_.ranks + world_, free);
       ++next) {
    mine.bytes[next % kSlots] = message.bytes;
    if (message.mine) {
      const size_t offset = (next - message.first) * kChunk;
      const size_t bytes = std::min(kChunk, message.bytes - offset);
      std::copy_n(message.mine + offset, bytes, slot(rank_, next));
      trace::count<"dist.shared_bytes">(int64_t(bytes));
    }
    mine.put = next + 1;
    ring_bell();
  }
  return next == message.first + chunks;
}

// Returns true once all ranks have put this chunk of the message.
bool SharedMemory::all_put(const Message& message, uint32_t number) const {
  for (int r = 0; r < world_; ++r) {
    const Layout::Rank& rank = shared_.ranks[r];
    if (!before(number, rank.put)) return false;
    if (const size_t bytes = rank.bytes[number % kSlots]; bytes != message.bytes)
      fail(Exit::distributed, "rank ", r, " sends ", bytes, " bytes, this rank ", message.bytes,
           "; all ranks must start the same collectives");
  }
  return true;
}

void SharedMemory::finish(const Message& message, Timeout timeout) {
  const auto end = Clock::now() + timeout;
  Layout::Rank& mine = shared_.ranks[rank_];
  Chunks chunks(world_);
  for (size_t offset = 0; offset < message.bytes; offset += kChunk) {
    const uint32_t number = mine.read;
    wait(end, [&] {
      put(message);
      return all_put(message, number);
    });
    for (int r = 0; r < world_; ++r) chunks[r] = slot(r, number);
    message.read(offset, std::min(kChunk, message.bytes - offset), chunks);
    mine.read = number + 1;
    ring_bell();
  }
}

void SharedMemory::close() {
  shared_.closed = 1;
  ring_bell();
}

// ---- waiting
//
// A rank that is about to sleep first says so, then looks at the numbers again; a rank that has
// changed a number looks for sleepers afterwards. These accesses are sequentially consistent, so
// one of the two sees the other. The bell changes between look and sleep, or it does not ring.

static void futex(std::atomic<uint32_t>& word, int operation, uint32_t value,
                  const timespec* timeout) {
  syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

void SharedMemory::ring_bell() {
  if (shared_.sleepers == 0) return;
  ++shared_.bell;
  futex(shared_.bell, FUTEX_WAKE, INT_MAX, nullptr);
}

template <class Ready> void SharedMemory::wait(Clock::time_point end, const Ready& ready) {
  const auto over = [&] {
    if (ready()) return true;
    if (shared_.closed) fail(Exit::distributed, "closed by peer");
    return false;
  };
  if (over()) return;
  for (const auto awake = Clock::now() + kSpin; Clock::now() < awake; sched_yield())
    if (over()) return;
  struct Sleeper {
    explicit Sleeper(Layout& shared) : shared(shared) { ++shared.sleepers; }
    ~Sleeper() { --shared.sleepers; }
    Layout& shared;
  } const sleeper(shared_);
  for (;;) {
    const uint32_t bell = shared_.bell;
    if (over()) return;
    const auto left = std::chrono::nanoseconds(end - Clock::now()).count();
    if (left <= 0) fail(Exit::distributed, "timed out");
    const timespec limit{.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
    futex(shared_.bell, FUTEX_WAIT, bell, &limit);
  }
}

}  // namespace bellows
