// TCP sockets of the store, which do not block. A lack of descriptors or memory is an Error,
// exit 6.
#pragma once
#include <string>
#include "core/base/file.h"
#include "dist/rendezvous/store.h"

namespace bellows {

using Clock = std::chrono::steady_clock;

// Names the calling thread and blocks all signals in it, including SIGPIPE of a closed connection.
void begin_thread(const std::string& name);
// Throws Error, exit 6, if the error number means a lack of descriptors or memory.
void check_lack(int error, const char* where);
// Returns the time that is `timeout` from now, at most ten years, so that it cannot overflow.
Clock::time_point deadline_after(Timeout timeout);
// Waits for one of `events` (POLLIN, POLLOUT) or an error. Returns false after the deadline.
bool wait_for_socket(int socket, short events, Clock::time_point deadline);
bool is_loopback(const std::string& host);  // true for "localhost", "::1", "127.0.0.1"
// Listens on a port (0: any) of `host`, if is_loopback(), else of all interfaces; or throws,
// exit 7.
Descriptor listen_on(const std::string& host, int port);
int port_of(int socket, bool peer = false);
bool is_of_this_user(int socket);  // true if the peer is a process of this user on this machine
// Tries all addresses of `host` once, each for up to 5 s. Returns a connected socket, or -1 with
// the reason in `why`.
int connect_to(const std::string& host, int port, Clock::time_point deadline, std::string& why);
// Sends the front of `out`, or receives up to 64 KiB into `in` if `out` is empty. Returns false if
// the connection has ended, with the reason in `why`: kClosed if the other process closed it.
bool transfer(int socket, std::string& out, std::string& in, std::string& why);
constexpr char kClosed[] = "it closed the connection";

}  // namespace bellows
