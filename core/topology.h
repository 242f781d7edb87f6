// Where the machine's cores are: which share a socket, which a memory node, which are two halves of
// one core. Read from /sys, which needs no library.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace bellows {

struct Core {
  int cpu;  // as the system numbers it
  int node = 0, package = 0;
  int core = 0;     // within the package
  int sibling = 0;  // 0 for the first thread of a core, 1 for its second
  bool operator==(const Core&) const = default;
};

inline constexpr const char* kSystem = "/sys/devices/system";  // another one in tests

// "0-3,8" as {0, 1, 2, 3, 8}. Throws Error (exit 2) for anything else.
std::vector<int> cpu_list(const std::string& text);

// Of these processors, in ascending order. What the system does not tell is 0.
std::vector<Core> topology(std::vector<int> cpus, const std::filesystem::path& root = kSystem);
std::vector<int> memory_nodes(const std::filesystem::path& root = kSystem);

// An order in which to give cores to threads; either way a thread has a whole core while there are
// enough. compact: near each other, one socket after the other; spread: in turn over the sockets.
enum class Pinning { off, compact, spread, list };
std::vector<int> placement(std::vector<Core> cores, Pinning pinning);

}  // namespace bellows
