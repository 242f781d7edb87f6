// Catches the Error that a call throws: its message and its exit code.
#pragma once
#include <gtest/gtest.h>
#include <string>
#include "core/base/check.h"

namespace bellows {

struct Refusal {
  std::string message = "no error";
  Exit exit = Exit::done;
};
template <class Body> Refusal refused(const Body& body) {
  try {
    body();
    return {};
  } catch (const Error& error) {
    return {error.what(), error.exit};
  }
}
template <class Body> std::string refusal(const Body& body) { return refused(body).message; }

// Returns the message, and expects that exit code.
template <class Body> std::string complaint(Exit exit, const Body& body) {
  const Refusal answer = refused(body);
  EXPECT_EQ(answer.exit, exit) << answer.message;
  return answer.message;
}

}  // namespace bellows
