// TCP sockets of the store. All are non-blocking and closed on exec; calls are retried after EINTR.
#pragma once
#include <string>
#include "core/base/file.h"
#include "dist/rendezvous/store.h"

namespace bellows {

using Clock = std::chrono::steady_clock;

// Call it first in each thread that uses sockets. Names the thread and blocks all signals in it,
// including SIGPIPE of a closed connection.
void begin_thread(const std::string& name);

// Returns the time that is `timeout` from now, at most ten years, so that it cannot overflow.
Clock::time_point deadline_after(Timeout timeout);

// Waits until one of `events` (POLLIN, POLLOUT) or an error is pending. Returns false if the
// deadline passes before.
bool wait_for_socket(int socket, short events, Clock::time_point deadline);

// Listens on `port`; 0: any free one. Binds the loopback interface alone if `host` is one of its
// addresses or, with all ranks on this machine, one of its names; else all interfaces. Throws
// Error, exit 7, with the process that holds the port.
Descriptor listen_on(const std::string& host, bool all_local, int port);
// Returns the host and the port by which this machine reaches a listening socket.
std::pair<std::string, int> local_address_of(int listener);

// Tries all addresses of `host` once, each for up to 5 s. Returns a connected socket, or -1 with
// the reason in `why`.
int connect_to(const std::string& host, int port, Clock::time_point deadline, std::string& why);

// Receives up to 64 KiB and appends them to `buffer`. Returns false if the connection has ended,
// with the reason in `why`.
bool receive_some(int socket, std::string& buffer, std::string& why);
// Sends as much of the front of `buffer` as the system takes, and removes it. Returns as above.
bool send_some(int socket, std::string& buffer, std::string& why);

}  // namespace bellows
