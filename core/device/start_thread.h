// The one way to start a thread outside the pool.
#pragma once
#include <functional>
#include <string>
#include <thread>

namespace bellows {

// Starts a thread with that name (up to 15 characters), without the pinning of its creator. Throws
// Error, exit 6, if the system starts no more threads.
std::thread start_thread(const std::string& name, std::function<void()> body);

}  // namespace bellows
